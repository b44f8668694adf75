-- list_live: lists jobs that have not ended, newest first. The caller adds one line for each filter.
-- :before only lower ids   :limit limit
SELECT id, type, priority, payload, enqueued_at, due, expires_at, key, correlation, job_group, tags, options,
    attempts, failures, crashes, holds, progress, last_error,
    gate, token, worker, since, boosted, cancel_requested
FROM delayed_jobs WHERE id < :before
/* filters */
ORDER BY id DESC LIMIT :limit;
