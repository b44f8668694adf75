-- read_live: one job that has not ended, and how it waits or runs.
-- $1 id
SELECT {job}, gate, token, locked_by, locked_at, boosted, cancel_requested
FROM windlass.delayed_jobs WHERE id = $1::bigint;
