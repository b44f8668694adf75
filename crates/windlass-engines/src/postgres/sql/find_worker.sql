-- find_worker: finds a worker that may claim.
-- $1 worker
SELECT id FROM windlass.workers WHERE id = $1::uuid AND died IS NULL;
