-- asked_to_stop: the running jobs of a worker that somebody asked to stop.
-- $1 worker
-- plan: walks delayed_jobs_stopping: only what was asked to stop is in this index
SELECT id, token FROM windlass.delayed_jobs
WHERE cancel_requested IS NOT NULL AND locked_by = $1::uuid ORDER BY id;
