-- list_live: lists jobs that have not ended, newest first. The caller adds one line for each filter.
-- :before only lower ids   :limit limit
SELECT {job}, gate, token, worker, since, boosted, cancel_requested
FROM delayed_jobs WHERE id < :before
/* filters */
ORDER BY id DESC LIMIT :limit;
