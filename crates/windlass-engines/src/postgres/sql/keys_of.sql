-- keys_of: lists the keys of jobs that have not ended. Jobs without a key are left out only after their
-- rows were found: with both conditions in one query, the server may scan all existing keys, which were few
-- when it made its plan.
-- $1 ids
WITH ours AS MATERIALIZED (
    SELECT id, job_type, key FROM windlass.delayed_jobs WHERE id = ANY ($1::bigint[])
)
SELECT id, job_type, key FROM ours WHERE key IS NOT NULL;
