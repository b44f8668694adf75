-- discard: deletes a dead letter with its attempts.
-- $1 id
-- plan: walks delayed_jobs_dlq_queue when seen empty: an operator discards one dead letter
WITH gone AS (
    DELETE FROM windlass.delayed_jobs_dlq WHERE id = $1::bigint RETURNING id
)
DELETE FROM windlass.attempts WHERE job = ANY (ARRAY (SELECT id FROM gone));
