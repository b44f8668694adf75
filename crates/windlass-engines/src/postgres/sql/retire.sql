-- retire: deletes a worker that ended cleanly; a worker that was declared dead stays known.
-- $1 worker
DELETE FROM windlass.workers WHERE id = $1::uuid AND died IS NULL RETURNING id;
