-- orphans: lists running jobs without a live worker in the order of deaths, and the jobs that the worker
-- held. It scans only the claims that hold a job.
-- $1 limit
-- plan: walks claims_worker: only claims that hold a job, or did until the last fold, are in this index
-- plan: sorts: the jobs of dead workers that were not yet rescued
SELECT j.id, lost.held, lost.worker
FROM (
    -- The worker of each claim is read first: the jobs of live workers are not read, however many they are.
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
