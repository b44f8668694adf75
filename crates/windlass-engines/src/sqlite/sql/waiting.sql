-- waiting: what ending or moving needs to know of a job that has not ended.
-- ?1 id
SELECT type, due, attempts, failures, crashes, holds, key, gate, priority, worker IS NOT NULL,
    ordering_key, job_group
FROM delayed_jobs WHERE id = ?1;
