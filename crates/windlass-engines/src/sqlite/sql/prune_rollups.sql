-- prune_rollups: delete minutes that are past their time, oldest first.
-- ?1 minutes before this one   ?2 at most so many rows
DELETE FROM job_rollups WHERE (minute, queue, job_type) IN (
    SELECT minute, queue, job_type FROM job_rollups WHERE minute < ?1 ORDER BY minute, queue, job_type LIMIT ?2
);
