-- set_priority: changes the priority of a waiting job; never of a running one. A job without a fairness key
-- gets the empty one where other jobs have fairness keys.
-- $1 id   $2 priority
UPDATE windlass.delayed_jobs j
SET priority = $2::integer, fairness_key = coalesce(j.fairness_key, (SELECT '' FROM windlass.queues q WHERE q.name = j.queue AND q.fairness_keys_since IS NOT NULL))
WHERE id = $1::bigint AND locked_by IS NULL;
