-- forget_ended: deletes a finished job.
-- ?1 id
DELETE FROM job_history WHERE id = ?1;
