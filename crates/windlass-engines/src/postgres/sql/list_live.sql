-- list_live: jobs that have not ended, newest first. The caller adds one line for each filter.
-- $1 only lower numbers   $2 at most so many
-- plan: cold: a person asks for a page; filters are added to it
SELECT {job}, gate, token, locked_by, locked_at, boosted, cancel_requested
FROM windlass.delayed_jobs WHERE id < $1::bigint
/* filters */
ORDER BY id DESC LIMIT $2::bigint;
