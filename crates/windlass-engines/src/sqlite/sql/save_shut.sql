-- save_shut: shuts a queue, or opens it again.
-- ?1 queue number   ?2 1 for shut
UPDATE queues SET shut = ?2 WHERE id = ?1;
