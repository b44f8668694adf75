-- set_priority: changes the priority of a waiting job; never of a running one. Without a fairness key it
-- gets the empty one if other jobs of its type and priority have fairness keys.
-- ?1 id   ?2 priority
UPDATE delayed_jobs SET
    priority = ?2,
    fairness_key = coalesce(fairness_key, CASE WHEN EXISTS (
        SELECT 1 FROM delayed_jobs o WHERE o.type = delayed_jobs.type AND o.priority = ?2
            AND o.fairness_key > '' AND o.fairness_key IS NOT NULL AND o.gate IS NULL AND o.worker IS NULL
    ) THEN '' END)
WHERE id = ?1 AND worker IS NULL;
