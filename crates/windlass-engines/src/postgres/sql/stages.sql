-- stages: returns the state of jobs that have not ended or are dead; of other jobs nothing.
-- $1 ids
-- plan: walks delayed_jobs_dlq_queue when seen empty: dead letters are few until the next ANALYZE
SELECT id, CASE WHEN locked_by IS NULL THEN 'waiting' ELSE 'running' END
FROM windlass.delayed_jobs WHERE id = ANY ($1::bigint[])
UNION ALL SELECT id, 'dead' FROM windlass.delayed_jobs_dlq WHERE id = ANY ($1::bigint[]);
