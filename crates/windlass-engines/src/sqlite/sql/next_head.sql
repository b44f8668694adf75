-- next_head: finds the first job of the next priority among the ready and scheduled jobs of a type.
-- ?1 type   ?2 the last priority, -1 at first
SELECT priority, due FROM delayed_jobs
WHERE gate IS NULL AND worker IS NULL AND type = ?1 AND priority > ?2
ORDER BY priority, due, id LIMIT 1;
