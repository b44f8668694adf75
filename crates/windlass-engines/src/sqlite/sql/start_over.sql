-- start_over: makes a dead letter wait again with fresh counters. It was started in time once, so it no
-- longer expires. Without a fairness key it gets the empty one if other jobs of its type and priority have
-- fairness keys.
-- ?1 id   ?2 due   ?3 ordering key   ?4 gate   ?5 fairness key
INSERT INTO delayed_jobs (
    id, type, priority, payload, enqueued_at, due, expires_at, {carried},
    last_error, settled_by, ordering_key, gate, fairness_key
)
SELECT id, type, priority, payload, enqueued_at, ?2, NULL, {carried},
    last_error, settled_by, ?3, ?4, coalesce(?5, CASE WHEN EXISTS (
        SELECT 1 FROM delayed_jobs o WHERE o.type = d.type AND o.priority = d.priority
            AND o.fairness_key > '' AND o.fairness_key IS NOT NULL AND o.gate IS NULL AND o.worker IS NULL
    ) THEN '' END)
FROM delayed_jobs_dlq d WHERE id = ?1;
