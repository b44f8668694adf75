-- list_live: lists jobs that have not ended, newest first. The caller adds one line for each filter.
-- $1 only lower ids   $2 limit
-- plan: cold: an operator requests a page; filters are added to it
SELECT {job}, gate, token, locked_by, locked_at, boosted, cancel_requested
FROM windlass.delayed_jobs WHERE id < $1::bigint
/* filters */
ORDER BY id DESC LIMIT $2::bigint;
