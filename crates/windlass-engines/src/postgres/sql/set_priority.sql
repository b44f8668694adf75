-- set_priority: a waiting job gets another priority; never a running one. Without a fairness key it has the empty one where others have
-- fairness keys.
-- $1 id   $2 priority
UPDATE windlass.delayed_jobs j
SET priority = $2::integer, fairness_key = coalesce(j.fairness_key, (SELECT '' FROM windlass.queues q WHERE q.name = j.queue AND q.fairness_keys_since IS NOT NULL))
WHERE id = $1::bigint AND locked_by IS NULL;
