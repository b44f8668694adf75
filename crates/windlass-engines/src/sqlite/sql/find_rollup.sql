-- find_rollup: reads the rollup of one minute, queue and type.
-- ?1 minute   ?2 queue   ?3 type
SELECT minute, queue, job_type, enqueued, started, succeeded, retried, dead, cancelled, waits, runs
FROM job_rollups WHERE minute = ?1 AND queue = ?2 AND job_type = ?3;
