-- lock_dead: locks a dead letter, and reads what starting it over or discarding it needs.
-- $1 id
-- plan: walks delayed_jobs_dlq_queue when seen empty: an operator starts one dead letter over
SELECT job_type, queue, key, options, created_at, attempts, worker, started_at, ended_at, ending, attempt_error, output
FROM windlass.delayed_jobs_dlq WHERE id = $1::bigint FOR UPDATE;
