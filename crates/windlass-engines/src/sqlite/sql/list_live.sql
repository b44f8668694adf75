-- list_live: jobs that have not ended, newest first. The caller adds one line for each filter.
-- ?1 only lower numbers   ?2 at most so many
SELECT id, type, priority, payload, enqueued_at, due, expires_at, key, correlation, job_group, tags, options,
    attempts, failures, crashes, holds, progress, last_error,
    gate, token, worker, since, boosted, cancel_requested
FROM delayed_jobs WHERE id < ?1
/* filters */
ORDER BY id DESC LIMIT ?2;
