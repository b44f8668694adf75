-- running_of: the running jobs of one worker.
-- ?1 worker   ?2 at most so many
SELECT id, token FROM delayed_jobs WHERE worker = ?1 ORDER BY id LIMIT ?2;
