-- orphans: running jobs without a live worker, by the order of deaths, and what that worker held; a walk over the
-- running ones only.
-- $1 at most so many
SELECT j.id, w.held, j.locked_by
FROM windlass.delayed_jobs j LEFT JOIN windlass.workers w ON w.id = j.locked_by
WHERE j.locked_by IS NOT NULL AND (w.id IS NULL OR w.died IS NOT NULL)
ORDER BY w.died, j.id LIMIT $1::integer;
