-- lock_free_jobs: locks jobs as lock_jobs does, but leaves out those that another session has locked.
-- $1 ids
SELECT id, job_type, queue, priority, scheduled_at, attempts, failures, crashes, holds, key, gate, token, locked_by,
    locked_at, cancel_requested, options, ordering_key
FROM windlass.delayed_jobs WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE SKIP LOCKED;
