-- keys_of: the keys of jobs that have not ended. Those without one are left out only after their rows were found: asked
-- for together, the server may walk over all keys that there are, which were few when it made its plan.
-- $1 ids
WITH ours AS MATERIALIZED (
    SELECT id, job_type, key FROM windlass.delayed_jobs WHERE id = ANY ($1::bigint[])
)
SELECT id, job_type, key FROM ours WHERE key IS NOT NULL;
