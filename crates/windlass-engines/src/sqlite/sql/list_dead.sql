-- list_dead: lists dead letters, newest first. The caller adds one line for each filter.
-- :before only lower ids   :limit limit
SELECT id, type, priority, payload, enqueued_at, due, expires_at, key, correlation, job_group, tags, options,
    attempts, failures, crashes, holds, progress, last_error,
    error, ended_at
FROM delayed_jobs_dlq WHERE id < :before
/* filters */
ORDER BY id DESC LIMIT :limit;
