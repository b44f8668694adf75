-- settle_waiting: makes a running job wait again, only while the claim holds. Without a fairness key it
-- gets the empty one if other jobs of its type and priority have fairness keys.
-- ?1 id   ?2 token   ?3 due   ?4 gate   ?5 attempts   ?6 failures   ?7 crashes   ?8 holds   ?9 error, or null
-- ?10 the token that settled it, or null if the claim was taken away
UPDATE delayed_jobs SET
    due = ?3, gate = ?4, attempts = ?5, failures = ?6, crashes = ?7, holds = ?8,
    last_error = coalesce(?9, last_error), settled_by = coalesce(?10, settled_by),
    token = NULL, worker = NULL, since = NULL, boosted = NULL, cancel_requested = NULL,
    fairness_key = coalesce(fairness_key, CASE WHEN EXISTS (
        SELECT 1 FROM delayed_jobs o WHERE o.type = delayed_jobs.type AND o.priority = delayed_jobs.priority
            AND o.fairness_key > '' AND o.fairness_key IS NOT NULL AND o.gate IS NULL AND o.worker IS NULL
    ) THEN '' END)
WHERE id = ?1 AND token = ?2;
