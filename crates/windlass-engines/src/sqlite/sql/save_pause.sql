-- save_pause: pauses or resumes a queue.
-- ?1 queue number   ?2 the pause, or null
UPDATE queues SET pause = ?2 WHERE id = ?1;
