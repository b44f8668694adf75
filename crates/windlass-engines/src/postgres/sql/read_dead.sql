-- read_dead: reads one dead letter.
-- $1 id
-- plan: walks delayed_jobs_dlq_queue when seen empty: an operator requests one job
SELECT {job}, error, ended_at
FROM windlass.delayed_jobs_dlq WHERE id = $1::bigint;
