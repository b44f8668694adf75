-- settle_ended: copies a job that ends to the history, only while its claim holds or it waits. It is one
-- row at most, so OR FAIL is as good as the default, and spares SQLite a journal for the statement.
-- ?1 id   ?2 token, or null if it waits   ?3 attempts   ?4 failures   ?5 crashes   ?6 holds
-- ?7 error, or null
-- ?8 state   ?9 keep until   ?10 result   ?11 why   ?12 ended at   ?13 worker   ?14 started at   ?15 ending
-- ?16 error of the attempt   ?17 output   ?18 the token that settled it, or null
INSERT OR FAIL INTO job_history
SELECT id, type, priority, payload, enqueued_at, due, expires_at, {carried},
    ?3, ?4, ?5, ?6, progress, coalesce(?7, last_error), coalesce(?18, settled_by),
    ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17
FROM delayed_jobs WHERE id = ?1 AND token IS ?2;
