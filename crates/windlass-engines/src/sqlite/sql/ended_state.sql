-- ended_state: returns how a job ended, if it is still known.
-- ?1 id
SELECT state FROM job_history WHERE id = ?1 UNION ALL SELECT 0 FROM delayed_jobs_dlq WHERE id = ?1 LIMIT 1;
