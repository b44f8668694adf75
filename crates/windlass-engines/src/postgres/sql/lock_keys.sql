-- lock_keys: locks keys in the order of their bytes, whatever the collation of the database, and reads the
-- holder of each.
-- by position, in order: $1 types   $2 keys
-- plan: sorts: the keys of one request, so that all sessions lock them in one order
SELECT k.job_type, k.key, k.job, k.scope, k.until
FROM unnest($1::text[], $2::text[]) AS i (job_type, key)
JOIN windlass.job_keys k ON k.job_type = i.job_type AND k.key = i.key
ORDER BY k.job_type COLLATE "C", k.key COLLATE "C"
FOR UPDATE OF k;
