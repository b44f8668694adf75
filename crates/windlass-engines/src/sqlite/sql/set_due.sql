-- set_due: changes the due time of a waiting job, behind a gate or not; never of a running job. Without a
-- fairness key it gets the empty one if other jobs of its type and priority have fairness keys.
-- ?1 id   ?2 due   ?3 gate, or null
UPDATE delayed_jobs SET
    due = ?2,
    gate = ?3,
    fairness_key = coalesce(fairness_key, CASE WHEN EXISTS (
        SELECT 1 FROM delayed_jobs o WHERE o.type = delayed_jobs.type AND o.priority = delayed_jobs.priority
            AND o.fairness_key > '' AND o.fairness_key IS NOT NULL AND o.gate IS NULL AND o.worker IS NULL
    ) THEN '' END)
WHERE id = ?1 AND worker IS NULL;
