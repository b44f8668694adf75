-- list_ended: lists jobs that succeeded or were cancelled, newest first. The caller adds one line for each
-- filter.
-- :before only lower ids   :limit limit
SELECT id, type, priority, payload, enqueued_at, due, expires_at, key, correlation, job_group, tags, options,
    attempts, failures, crashes, holds, progress, last_error,
    state, result, why, ended_at
FROM job_history WHERE id < :before
/* filters */
ORDER BY id DESC LIMIT :limit;
