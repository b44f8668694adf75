-- retire: deletes a worker that ended cleanly; a worker that was declared dead stays known.
-- ?1 worker
DELETE FROM workers WHERE id = ?1 AND died IS NULL;
