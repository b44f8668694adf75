-- last_attempt: reads the attempt that a job's own row holds: the running attempt, or the one that ended
-- the job.
-- $1 job
-- plan: walks delayed_jobs_dlq_queue when seen empty: an operator requests one job
SELECT attempts, locked_by, locked_at, NULL::timestamptz, 'running', NULL::text, NULL::text
FROM windlass.delayed_jobs WHERE id = $1::bigint AND locked_by IS NOT NULL
UNION ALL
SELECT attempts, worker, started_at, ended_at, ending, attempt_error, output
FROM windlass.delayed_jobs_dlq WHERE id = $1::bigint AND ending IS NOT NULL
UNION ALL
SELECT attempts, worker, started_at, ended_at, ending, attempt_error, output
FROM windlass.job_history WHERE id = $1::bigint AND ending IS NOT NULL
LIMIT 1;
