-- read_live: reads one job that has not ended, with its gate, claim and worker.
-- $1 id
SELECT {job}, gate, token, locked_by, locked_at, boosted, cancel_requested
FROM windlass.delayed_jobs WHERE id = $1::bigint;
