-- reserve_keys: stores and locks a row for each key. Waits for a transaction that is about to take one of
-- them. The update, which never changes a row, locks a row that exists already: if it were only read, it
-- could be deleted before it is locked.
-- by position, in order: $1 types   $2 keys
INSERT INTO windlass.job_keys AS held (job_type, key)
SELECT * FROM unnest($1::text[], $2::text[])
ON CONFLICT (job_type, key) DO UPDATE SET job = held.job WHERE false;
