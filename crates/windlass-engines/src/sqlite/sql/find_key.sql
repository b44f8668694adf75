-- find_key: reads the holder of a key.
-- ?1 type   ?2 key
SELECT job, scope, until FROM job_keys WHERE type = ?1 AND key = ?2;
