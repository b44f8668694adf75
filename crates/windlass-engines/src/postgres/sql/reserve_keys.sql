-- reserve_keys: a row for each key, so that there is something to lock. Waits for whoever is about to take one.
-- by position, in order: $1 types   $2 keys
INSERT INTO windlass.job_keys (job_type, key)
SELECT * FROM unnest($1::text[], $2::text[])
ON CONFLICT DO NOTHING;
