-- read_live: reads one job that has not ended, with its gate, claim and worker.
-- ?1 id
SELECT id, type, priority, payload, enqueued_at, due, expires_at, key, correlation, job_group, tags, options,
    attempts, failures, crashes, holds, progress, last_error,
    gate, token, worker, since, boosted, cancel_requested
FROM delayed_jobs WHERE id = ?1;
