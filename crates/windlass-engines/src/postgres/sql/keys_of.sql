-- keys_of: the keys of jobs that have not ended.
-- $1 ids
SELECT id, job_type, key FROM windlass.delayed_jobs WHERE id = ANY ($1::bigint[]) AND key IS NOT NULL;
