-- orphans: running jobs without a live worker, by the order of deaths, and what that worker held; a walk over the claims
-- that hold something only.
-- $1 at most so many
-- plan: walks claims_worker: only claims that hold something, or did until the last fold, are in this index
-- plan: sorts: the jobs of dead workers that were not yet rescued
SELECT j.id, lost.held, lost.worker
FROM (
    -- First whose they are: what live workers hold is left alone, however much it is.
    SELECT c.token, c.worker, c.jobs, w.held, w.died
    FROM windlass.claims c LEFT JOIN windlass.workers w ON w.id = c.worker
    WHERE c.jobs IS NOT NULL AND (w.id IS NULL OR w.died IS NOT NULL)
    OFFSET 0
) AS lost
CROSS JOIN LATERAL unnest(lost.jobs) AS named (id)
CROSS JOIN LATERAL (
    SELECT j.id FROM windlass.delayed_jobs j
    WHERE j.id = named.id AND j.token = lost.token AND j.locked_by = lost.worker OFFSET 0
) AS j
ORDER BY lost.died, j.id LIMIT $1::integer;
