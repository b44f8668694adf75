-- waiting: reads what ending or moving a job that has not ended needs.
-- ?1 id
SELECT type, due, attempts, failures, crashes, holds, key, gate, priority, worker IS NOT NULL,
    ordering_key, job_group
FROM delayed_jobs WHERE id = ?1;
