-- orphans: lists running jobs without a live worker, in the order of deaths; a scan of the running jobs
-- only.
-- ?1 limit
SELECT j.id, j.token, j.worker, w.held
FROM delayed_jobs j LEFT JOIN workers w ON w.id = j.worker
WHERE j.worker IS NOT NULL AND (w.id IS NULL OR w.died IS NOT NULL)
ORDER BY w.died, j.id LIMIT ?1;
