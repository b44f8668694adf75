-- existing_keys: lists which keys have a row, whether or not a session has locked it.
-- by position: $1 types   $2 keys
SELECT k.job_type, k.key
FROM unnest($1::text[], $2::text[]) AS i (job_type, key)
JOIN windlass.job_keys k ON k.job_type = i.job_type AND k.key = i.key;
