-- find_worker: whether a worker is known, and how it ended.
-- ?1 worker
SELECT ended, beats, expires_at FROM workers WHERE id = ?1;
