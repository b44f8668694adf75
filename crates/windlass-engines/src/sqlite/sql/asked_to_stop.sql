-- asked_to_stop: lists the running jobs of a worker that a caller has asked to stop.
-- ?1 worker
SELECT id, token FROM delayed_jobs WHERE worker = ?1 AND cancel_requested IS NOT NULL ORDER BY id;
