-- prune_rate_limits: deletes keys that have saved their full burst.
-- ?1 now   ?2 limit
DELETE FROM job_rate_limits WHERE (name, key) IN (
    SELECT name, key FROM job_rate_limits WHERE due <= ?1 ORDER BY due LIMIT ?2
);
