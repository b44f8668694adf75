-- note_clock: stores how far a worker's clock is ahead of ours, for operators; only of a worker that was
-- not declared dead.
-- ?1 id   ?2 microseconds
UPDATE workers SET clock_ahead = ?2 WHERE id = ?1 AND died IS NULL;
