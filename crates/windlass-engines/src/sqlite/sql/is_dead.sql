-- is_dead: whether a job lies in the dead-letter queue.
-- ?1 id
SELECT 1 FROM delayed_jobs_dlq WHERE id = ?1;
