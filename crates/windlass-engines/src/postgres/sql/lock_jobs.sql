-- lock_jobs: locks jobs that have not ended, in the order of their ids, and reads what a transition needs.
-- $1 ids
-- plan: sorts: the jobs of one request, so that all sessions lock them in one order
SELECT id, job_type, queue, priority, scheduled_at, attempts, failures, crashes, holds, key, gate, token, locked_by,
    locked_at, cancel_requested, options, ordering_key
FROM windlass.delayed_jobs WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE;
