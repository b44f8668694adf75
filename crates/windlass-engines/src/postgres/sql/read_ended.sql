-- read_ended: reads one job that succeeded or was cancelled.
-- $1 id
SELECT id, job_type, queue, priority, payload::text, created_at, scheduled_at, expires_at, key, correlation, job_group, tags,
    options, attempts, failures, crashes, holds, progress, last_error,
    state, result, why, ended_at
FROM windlass.job_history WHERE id = $1::bigint;
