-- free_key: frees the key of a job; never the key of another job.
-- ?1 type   ?2 key   ?3 job
DELETE FROM job_keys WHERE type = ?1 AND key = ?2 AND job = ?3;
