-- start_over: a dead letter waits again with fresh counters. It was started in time once, so it no longer expires.
-- ?1 id   ?2 due
INSERT INTO delayed_jobs (
    id, type, priority, payload, enqueued_at, due, expires_at, key, correlation, job_group, tags, options,
    last_error, settled_by
)
SELECT id, type, priority, payload, enqueued_at, ?2, NULL, key, correlation, job_group, tags, options,
    last_error, settled_by
FROM delayed_jobs_dlq WHERE id = ?1;
