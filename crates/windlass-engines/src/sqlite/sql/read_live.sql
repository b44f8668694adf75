-- read_live: reads one job that has not ended, with its gate, claim and worker.
-- ?1 id
SELECT {job}, gate, token, worker, since, boosted, cancel_requested
FROM delayed_jobs WHERE id = ?1;
