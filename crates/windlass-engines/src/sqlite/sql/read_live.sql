-- read_live: one job that has not ended, and how it waits or runs.
-- ?1 id
SELECT id, type, priority, payload, enqueued_at, due, expires_at, key, correlation, job_group, tags, options,
    attempts, failures, crashes, holds, progress, last_error,
    gate, token, worker, since, boosted, cancel_requested
FROM delayed_jobs WHERE id = ?1;
