-- orphans: running jobs without a live worker, by the order of deaths, and what that worker held; a walk over the claims
-- that hold something only.
-- $1 at most so many
SELECT r.id, w.held, r.worker
FROM windlass.running r LEFT JOIN windlass.workers w ON w.id = r.worker
WHERE w.id IS NULL OR w.died IS NOT NULL
ORDER BY w.died, r.id LIMIT $1::integer;
