-- free_key: a job gives its key back; never another's.
-- ?1 type   ?2 key   ?3 job
DELETE FROM job_keys WHERE type = ?1 AND key = ?2 AND job = ?3;
