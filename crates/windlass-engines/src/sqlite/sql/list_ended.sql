-- list_ended: jobs that succeeded or were cancelled, newest first. The caller adds one line for each filter.
-- :before only lower numbers   :limit at most so many
SELECT {job}, state, result, why, ended_at
FROM job_history WHERE id < :before
/* filters */
ORDER BY id DESC LIMIT :limit;
