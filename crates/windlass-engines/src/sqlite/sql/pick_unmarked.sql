-- pick_unmarked: of the very first waiting jobs of one type and priority, those that came in without a fairness key before others had
-- one; whole rows as in pick.
-- ?1 type   ?2 priority   ?3 how many are looked at   ?4 due until   ?5 how many
SELECT {job}, gate, token, worker, since, boosted, cancel_requested
FROM (
    SELECT * FROM delayed_jobs
    WHERE type = ?1 AND priority = ?2 AND due <= ?4 AND gate IS NULL AND worker IS NULL
    ORDER BY due, id LIMIT ?3
)
WHERE fairness_key IS NULL LIMIT ?5;
