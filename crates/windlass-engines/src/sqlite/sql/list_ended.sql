-- list_ended: lists jobs that succeeded or were cancelled, newest first. The caller adds one line for each
-- filter.
-- :before only lower ids   :limit limit
SELECT {job}, state, result, why, ended_at
FROM job_history WHERE id < :before
/* filters */
ORDER BY id DESC LIMIT :limit;
