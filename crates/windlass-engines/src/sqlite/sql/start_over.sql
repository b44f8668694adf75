-- start_over: a dead letter waits again with fresh counters. It was started in time once, so it no longer expires.
-- ?1 id   ?2 due   ?3 series   ?4 gate   ?5 share
INSERT INTO delayed_jobs (
    id, type, priority, payload, enqueued_at, due, expires_at, key, correlation, job_group, tags, options,
    last_error, settled_by, series, gate, share
)
SELECT id, type, priority, payload, enqueued_at, ?2, NULL, key, correlation, job_group, tags, options,
    last_error, settled_by, ?3, ?4, ?5
FROM delayed_jobs_dlq WHERE id = ?1;
