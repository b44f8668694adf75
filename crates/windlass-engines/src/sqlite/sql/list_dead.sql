-- list_dead: dead letters, newest first. The caller adds one line for each filter.
-- :before only lower numbers   :limit at most so many
SELECT {job}, error, ended_at
FROM delayed_jobs_dlq WHERE id < :before
/* filters */
ORDER BY id DESC LIMIT :limit;
