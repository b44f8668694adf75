-- read_ended: reads one job that succeeded or was cancelled.
-- ?1 id
SELECT id, type, priority, payload, enqueued_at, due, expires_at, key, correlation, job_group, tags, options,
    attempts, failures, crashes, holds, progress, last_error,
    state, result, why, ended_at
FROM job_history WHERE id = ?1;
