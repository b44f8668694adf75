-- settle_waiting: a running job waits again, only while the caller still holds the claim.
-- ?1 id   ?2 token   ?3 due   ?4 gate   ?5 attempts   ?6 failures   ?7 crashes   ?8 holds   ?9 error, or null
-- ?10 the token that stays: the same, or null if the claim was taken away
UPDATE delayed_jobs SET
    due = ?3, gate = ?4, attempts = ?5, failures = ?6, crashes = ?7, holds = ?8,
    last_error = coalesce(?9, last_error), token = ?10, worker = NULL, since = NULL, cancel_requested = NULL
WHERE id = ?1 AND token = ?2 AND worker IS NOT NULL;
