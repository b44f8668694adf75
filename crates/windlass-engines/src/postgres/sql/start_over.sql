-- start_over: makes a dead letter wait again with fresh counters. It was started in time once, so it no
-- longer expires. Without a fairness key it gets the empty one where other jobs have fairness keys.
-- $1 id   $2 due   $3 ordering key   $4 gate   $5 fairness key
-- plan: walks delayed_jobs_dlq_queue when seen empty: an operator starts one dead letter over
WITH gone AS (
    DELETE FROM windlass.delayed_jobs_dlq WHERE id = $1::bigint RETURNING *
)
INSERT INTO windlass.delayed_jobs (
    id, scheduled_at, created_at, settled_by, max_attempts, priority, queue, job_type, payload, key,
    {carried}, last_error, ordering_key, gate, fairness_key
)
SELECT id, $2::timestamptz, created_at, settled_by, max_attempts, priority, queue, job_type, payload, key,
    {carried}, last_error, $3::text, $4::text,
    coalesce($5::text, (SELECT '' FROM windlass.queues q WHERE q.name = gone.queue AND q.fairness_keys_since IS NOT NULL))
FROM gone;
