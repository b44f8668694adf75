-- prune_rollups: deletes rollups past their retention, oldest first.
-- ?1 minutes before this one   ?2 limit of rows
DELETE FROM job_rollups WHERE (minute, queue, job_type) IN (
    SELECT minute, queue, job_type FROM job_rollups WHERE minute < ?1 ORDER BY minute, queue, job_type LIMIT ?2
);
