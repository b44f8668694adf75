-- next_fairness_key: finds the next fairness key of one type and priority by name, with the due time of its
-- first job.
-- ?1 type   ?2 priority   ?3 the last fairness key, the empty name at first
SELECT fairness_key, due FROM delayed_jobs
WHERE type = ?1 AND priority = ?2 AND fairness_key > ?3 AND fairness_key IS NOT NULL AND gate IS NULL AND worker IS NULL
ORDER BY fairness_key, due, id LIMIT 1;
