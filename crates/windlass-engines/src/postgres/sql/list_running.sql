-- list_running: lists running jobs, newest first, by the claims that hold them: they are few, and may be
-- anywhere among the waiting jobs. The caller adds one line for each filter.
-- $1 only lower ids   $2 limit
-- plan: walks claims_worker: only claims that hold a job, or did until the last fold, are in this index
SELECT {job}, gate, token, locked_by, locked_at, boosted, cancel_requested
FROM windlass.delayed_jobs WHERE id = ANY (ARRAY (SELECT r.id FROM windlass.running r WHERE r.id < $1::bigint))
    AND locked_by IS NOT NULL
/* filters */
ORDER BY id DESC LIMIT $2::bigint;
