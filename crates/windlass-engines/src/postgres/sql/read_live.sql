-- read_live: reads one job that has not ended, with its gate, claim and worker.
-- $1 id
SELECT id, job_type, queue, priority, payload::text, created_at, scheduled_at, expires_at, key, correlation, job_group, tags,
    options, attempts, failures, crashes, holds, progress, last_error,
    gate, token, locked_by, locked_at, boosted, cancel_requested
FROM windlass.delayed_jobs WHERE id = $1::bigint;
