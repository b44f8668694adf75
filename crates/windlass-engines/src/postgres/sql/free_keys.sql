-- free_keys: frees keys that no job holds any more. The caller has locked them.
-- by position: $1 types   $2 keys
DELETE FROM windlass.job_keys k USING unnest($1::text[], $2::text[]) AS i (job_type, key)
WHERE k.job_type = i.job_type AND k.key = i.key;
