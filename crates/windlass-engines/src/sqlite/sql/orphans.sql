-- orphans: running jobs without a live worker, by the order of deaths; a scan of the running ones only.
-- ?1 at most so many
SELECT j.id, j.token, j.worker, w.held
FROM delayed_jobs j LEFT JOIN workers w ON w.id = j.worker
WHERE j.worker IS NOT NULL AND (w.id IS NULL OR w.died IS NOT NULL)
ORDER BY w.died, j.id LIMIT ?1;
