-- pick_unmarked: reads, of the very first waiting jobs of one type and priority, those that were enqueued
-- without a fairness key before other jobs had one; whole rows as in pick.
-- ?1 type   ?2 priority   ?3 how many jobs are read   ?4 due until   ?5 how many are returned
SELECT {job}, gate, token, worker, since, boosted, cancel_requested
FROM (
    SELECT * FROM delayed_jobs
    WHERE type = ?1 AND priority = ?2 AND due <= ?4 AND gate IS NULL AND worker IS NULL
    ORDER BY due, id LIMIT ?3
)
WHERE fairness_key IS NULL LIMIT ?5;
