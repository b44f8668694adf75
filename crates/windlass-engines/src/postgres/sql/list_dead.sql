-- list_dead: dead letters, newest first. The caller adds one line for each filter.
-- $1 only lower numbers   $2 at most so many
-- plan: cold: a person asks for a page; filters are added to it
SELECT {job}, error, ended_at
FROM windlass.delayed_jobs_dlq WHERE id < $1::bigint
/* filters */
ORDER BY id DESC LIMIT $2::bigint;
