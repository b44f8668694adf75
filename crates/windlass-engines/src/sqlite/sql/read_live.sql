-- read_live: one job that has not ended, and how it waits or runs.
-- ?1 id
SELECT {job}, gate, token, worker, since, boosted, cancel_requested
FROM delayed_jobs WHERE id = ?1;
