-- lock_free_jobs: as lock_jobs, but those that somebody else has locked are left out.
-- $1 ids
SELECT id, job_type, queue, priority, scheduled_at, attempts, failures, crashes, holds, key, gate, token, locked_by,
    locked_at, cancel_requested, options, ordering_key
FROM windlass.delayed_jobs WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE SKIP LOCKED;
