-- drop_reserved_keys: deletes reserved rows of keys that no job took.
-- by position: $1 types   $2 keys
-- plan: walks job_keys_pkey when seen empty: only a refused job with a new key leaves one
DELETE FROM windlass.job_keys k USING unnest($1::text[], $2::text[]) AS i (job_type, key)
WHERE k.job_type = i.job_type AND k.key = i.key AND k.job IS NULL;
