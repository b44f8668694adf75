-- waiting: what ending or moving needs to know of a job that has not ended.
-- ?1 id
SELECT type, due, attempts, failures, crashes, holds, key, token, gate, worker IS NOT NULL, priority
FROM delayed_jobs WHERE id = ?1;
