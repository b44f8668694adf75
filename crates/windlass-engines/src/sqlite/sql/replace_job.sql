-- replace_job: stores a new payload, due time, priority, expiry and label of a waiting job; never of a
-- running one. Without a fairness key it gets the empty one if other jobs of its type and priority have
-- fairness keys.
-- ?1 id   ?2 payload   ?3 due   ?4 priority   ?5 expires at   ?6 options
UPDATE delayed_jobs SET
    payload = ?2,
    due = ?3,
    priority = ?4,
    expires_at = ?5,
    options = ?6,
    fairness_key = coalesce(fairness_key, CASE WHEN EXISTS (
        SELECT 1 FROM delayed_jobs o WHERE o.type = delayed_jobs.type AND o.priority = ?4
            AND o.fairness_key > '' AND o.fairness_key IS NOT NULL AND o.gate IS NULL AND o.worker IS NULL
    ) THEN '' END)
WHERE id = ?1 AND worker IS NULL;
