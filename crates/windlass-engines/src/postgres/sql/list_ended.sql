-- list_ended: lists jobs that succeeded or were cancelled, newest first. The caller adds one line for each
-- filter.
-- $1 only lower ids   $2 limit
-- plan: cold: an operator requests a page; filters are added to it
SELECT {job}, state, result, why, ended_at
FROM windlass.job_history WHERE id < $1::bigint
/* filters */
ORDER BY id DESC LIMIT $2::bigint;
