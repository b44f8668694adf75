-- read_dead: reads one dead letter.
-- $1 id
-- plan: walks delayed_jobs_dlq_queue when seen empty: an operator requests one job
SELECT id, job_type, queue, priority, payload::text, created_at, scheduled_at, expires_at, key, correlation, job_group, tags,
    options, attempts, failures, crashes, holds, progress, last_error,
    error, ended_at
FROM windlass.delayed_jobs_dlq WHERE id = $1::bigint;
