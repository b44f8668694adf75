-- remove_dead: a dead letter leaves the dead-letter queue.
-- ?1 id
DELETE FROM delayed_jobs_dlq WHERE id = ?1;
