-- next_share: of the shares of one type and priority, the next by name, with the due time of its first job.
-- ?1 type   ?2 priority   ?3 the last share, the empty name at first
SELECT share, due FROM delayed_jobs
WHERE type = ?1 AND priority = ?2 AND share > ?3 AND share IS NOT NULL AND gate IS NULL AND worker IS NULL
ORDER BY share, due, id LIMIT 1;
