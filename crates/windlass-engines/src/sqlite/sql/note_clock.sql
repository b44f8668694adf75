-- note_clock: how far ahead of ours a worker's clock is, for people; only of a worker that was not declared dead.
-- ?1 id   ?2 microseconds
UPDATE workers SET clock_ahead = ?2 WHERE id = ?1 AND died IS NULL;
