-- list_ended: jobs that succeeded or were cancelled, newest first. The caller adds one line for each filter.
-- $1 only lower numbers   $2 at most so many
-- plan: cold: a person asks for a page; filters are added to it
SELECT {job}, state, result, why, ended_at
FROM windlass.job_history WHERE id < $1::bigint
/* filters */
ORDER BY id DESC LIMIT $2::bigint;
