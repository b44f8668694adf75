-- lock_jobs: what moving needs to know of jobs that have not ended, under lock, in the order of their numbers.
-- $1 ids
-- plan: sorts: the jobs of one request, so that all lock them in one order
SELECT id, job_type, queue, priority, scheduled_at, attempts, failures, crashes, holds, key, gate, token, locked_by,
    locked_at, cancel_requested, options, ordering_key
FROM windlass.delayed_jobs WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE;
