-- prune_rate_limits: forget keys that have saved up all they may.
-- ?1 now   ?2 at most so many
DELETE FROM job_rate_limits WHERE (name, key) IN (
    SELECT name, key FROM job_rate_limits WHERE due <= ?1 ORDER BY due LIMIT ?2
);
