-- orphans: running jobs without a live worker row; a scan of the running ones only.
-- ?1 at most so many
SELECT id, token, worker FROM delayed_jobs
WHERE worker IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM workers WHERE workers.id = delayed_jobs.worker AND workers.ended IS NULL
)
ORDER BY id LIMIT ?1;
