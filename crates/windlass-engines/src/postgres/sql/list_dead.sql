-- list_dead: lists dead letters, newest first. The caller adds one line for each filter.
-- $1 only lower ids   $2 limit
-- plan: cold: an operator requests a page; filters are added to it
SELECT {job}, error, ended_at
FROM windlass.delayed_jobs_dlq WHERE id < $1::bigint
/* filters */
ORDER BY id DESC LIMIT $2::bigint;
