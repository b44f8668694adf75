-- settle_dead: a copy in the dead-letter queue of a job that is given up, only while it is as the caller saw it.
-- ?1 id   ?2 token, or null for none   ?3 attempts   ?4 failures   ?5 crashes   ?6 holds   ?7 error
-- ?8 now   ?9 worker   ?10 started at   ?11 ending   ?12 error of the attempt   ?13 output
-- ?14 the token that stays
INSERT INTO delayed_jobs_dlq
SELECT id, type, priority, payload, enqueued_at, due, expires_at, key, correlation, job_group, tags, options,
    ?3, ?4, ?5, ?6, progress, ?7, ?14,
    ?7, ?8, ?9, ?10, ?11, ?12, ?13
FROM delayed_jobs WHERE id = ?1 AND token IS ?2;
