-- next_due: finds the first due time after an instant, of one type and priority, without a gate.
-- ?1 type   ?2 priority   ?3 the instant
SELECT due FROM delayed_jobs
WHERE gate IS NULL AND worker IS NULL AND type = ?1 AND priority = ?2 AND due > ?3
ORDER BY due LIMIT 1;
