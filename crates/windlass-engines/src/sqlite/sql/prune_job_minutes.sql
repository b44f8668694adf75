-- prune_job_minutes: delete minutes that are past their time, oldest first.
-- ?1 minutes before this one   ?2 at most so many rows
DELETE FROM job_minutes WHERE (minute, queue, job_type) IN (
    SELECT minute, queue, job_type FROM job_minutes WHERE minute < ?1 ORDER BY minute, queue, job_type LIMIT ?2
);
