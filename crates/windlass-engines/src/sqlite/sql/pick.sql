-- pick: reads the first waiting jobs of one type and priority within a span of due times, whole rows as in
-- read_live: reading each again by its id would cost a tenth of a claim. Leaves out jobs behind a gate, and
-- running jobs.
-- ?1 type   ?2 priority   ?3 due after   ?4 due until   ?5 how many
SELECT {job}, gate, token, worker, since, boosted, cancel_requested
FROM delayed_jobs
WHERE type = ?1 AND priority = ?2 AND due > ?3 AND due <= ?4 AND gate IS NULL AND worker IS NULL
ORDER BY due, id LIMIT ?5;
