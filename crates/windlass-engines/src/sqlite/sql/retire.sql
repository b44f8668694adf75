-- retire: let a worker out that ended cleanly; one that was declared dead stays known.
-- ?1 worker
DELETE FROM workers WHERE id = ?1 AND died IS NULL;
