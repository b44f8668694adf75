-- remove_dead: deletes a dead letter from the dead-letter queue.
-- ?1 id
DELETE FROM delayed_jobs_dlq WHERE id = ?1;
