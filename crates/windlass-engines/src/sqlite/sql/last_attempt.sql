-- last_attempt: reads the attempt that ended a job, or the running one.
-- ?1 job
SELECT attempts, worker, started_at, ended_at, ending, attempt_error, output FROM job_history
WHERE id = ?1 AND ending IS NOT NULL
UNION ALL
SELECT attempts, worker, started_at, ended_at, ending, attempt_error, output FROM delayed_jobs_dlq
WHERE id = ?1 AND ending IS NOT NULL
UNION ALL
SELECT attempts, worker, since, NULL, 'running', NULL, NULL FROM delayed_jobs
WHERE id = ?1 AND worker IS NOT NULL;
