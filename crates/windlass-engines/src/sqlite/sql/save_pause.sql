-- save_pause: pause a queue, or let it go on.
-- ?1 queue number   ?2 the pause, or null
UPDATE queues SET pause = ?2 WHERE id = ?1;
