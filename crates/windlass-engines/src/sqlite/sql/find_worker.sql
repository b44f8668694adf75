-- find_worker: returns whether a worker is known, and whether it was declared dead.
-- ?1 worker
SELECT died IS NOT NULL, beats, expires_at FROM workers WHERE id = ?1;
