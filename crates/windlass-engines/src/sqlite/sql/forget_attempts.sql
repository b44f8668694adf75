-- forget_attempts: deletes the attempts of a job that is gone.
-- ?1 job
DELETE FROM attempts WHERE job = ?1;
