-- running_of: lists the running jobs of one worker.
-- ?1 worker
SELECT id, token FROM delayed_jobs WHERE worker = ?1 ORDER BY id;
