-- reserve_keys: a row for each key, under lock. Waits for whoever is about to take one. The update that never happens
-- locks a row that is there already: were it only looked for, it could go before it is locked.
-- by position, in order: $1 types   $2 keys
INSERT INTO windlass.job_keys AS held (job_type, key)
SELECT * FROM unnest($1::text[], $2::text[])
ON CONFLICT (job_type, key) DO UPDATE SET job = held.job WHERE false;
