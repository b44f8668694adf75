-- ctids_of: reads the positions of jobs in the order of their queues.
-- $1 ids
SELECT queue, priority, scheduled_at, id, fairness_key FROM windlass.delayed_jobs WHERE id = ANY ($1::bigint[]);
