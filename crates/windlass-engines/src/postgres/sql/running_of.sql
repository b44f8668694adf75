-- running_of: the running jobs of one worker.
-- $1 worker
SELECT id, token FROM windlass.delayed_jobs WHERE locked_by = $1::uuid ORDER BY id;
