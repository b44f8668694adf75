-- asked_to_stop: running jobs of a worker that somebody asked to stop.
-- ?1 worker
SELECT id, token FROM delayed_jobs WHERE worker = ?1 AND cancel_requested IS NOT NULL ORDER BY id;
