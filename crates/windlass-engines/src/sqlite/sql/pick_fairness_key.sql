-- pick_fairness_key: reads the first waiting jobs of one type, priority and fairness key until a due time,
-- whole rows as in pick.
-- ?1 type   ?2 priority   ?3 fairness key   ?4 due until   ?5 how many
SELECT {job}, gate, token, worker, since, boosted, cancel_requested
FROM delayed_jobs
WHERE type = ?1 AND priority = ?2 AND fairness_key = ?3 AND fairness_key IS NOT NULL AND due <= ?4 AND gate IS NULL AND worker IS NULL
ORDER BY due, id LIMIT ?5;
