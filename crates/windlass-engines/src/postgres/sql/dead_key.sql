-- dead_key: reads the type and key of a dead letter that has a key.
-- $1 id
-- plan: walks delayed_jobs_dlq_key when seen empty: an operator requests one dead letter
SELECT job_type, key FROM windlass.delayed_jobs_dlq WHERE id = $1::bigint AND key IS NOT NULL;
