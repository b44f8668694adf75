-- is_dead: returns whether a job is in the dead-letter queue.
-- ?1 id
SELECT 1 FROM delayed_jobs_dlq WHERE id = ?1;
