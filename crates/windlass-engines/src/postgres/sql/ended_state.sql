-- ended_state: returns how a job ended: 1 succeeded, 2 cancelled, 3 dead.
-- $1 id
-- plan: walks delayed_jobs_dlq_queue when seen empty: an operator requests one job
SELECT 3::smallint FROM windlass.delayed_jobs_dlq WHERE id = $1::bigint
UNION ALL SELECT state FROM windlass.job_history WHERE id = $1::bigint
LIMIT 1;
