-- settle_dead: copies a dead job to the dead-letter queue, only while its claim holds or it waits.
-- ?1 id   ?2 token, or null if it waits   ?3 attempts   ?4 failures   ?5 crashes   ?6 holds
-- ?7 error, or null
-- ?8 why it is dead   ?9 ended at   ?10 worker   ?11 started at   ?12 ending   ?13 error of the attempt
-- ?14 output   ?15 the token that settled it, or null
INSERT INTO delayed_jobs_dlq
SELECT id, type, priority, payload, enqueued_at, due, expires_at, {carried},
    ?3, ?4, ?5, ?6, progress, coalesce(?7, last_error), coalesce(?15, settled_by),
    ?8, ?9, ?10, ?11, ?12, ?13, ?14
FROM delayed_jobs WHERE id = ?1 AND token IS ?2;
