-- list_live: jobs that have not ended, newest first. The caller adds one line for each filter.
-- :before only lower numbers   :limit at most so many
SELECT {job}, gate, token, worker, since, boosted, cancel_requested
FROM delayed_jobs WHERE id < :before
/* filters */
ORDER BY id DESC LIMIT :limit;
