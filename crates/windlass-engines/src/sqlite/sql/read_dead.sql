-- read_dead: reads one dead letter.
-- ?1 id
SELECT id, type, priority, payload, enqueued_at, due, expires_at, key, correlation, job_group, tags, options,
    attempts, failures, crashes, holds, progress, last_error,
    error, ended_at
FROM delayed_jobs_dlq WHERE id = ?1;
