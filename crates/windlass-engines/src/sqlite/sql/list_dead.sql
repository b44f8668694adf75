-- list_dead: lists dead letters, newest first. The caller adds one line for each filter.
-- :before only lower ids   :limit limit
SELECT {job}, error, ended_at
FROM delayed_jobs_dlq WHERE id < :before
/* filters */
ORDER BY id DESC LIMIT :limit;
