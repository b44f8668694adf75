-- asked_to_stop: lists the running jobs of a worker that a caller has asked to stop.
-- $1 worker
-- plan: walks delayed_jobs_stopping: only jobs that were asked to stop are in this index
SELECT id, token FROM windlass.delayed_jobs
WHERE cancel_requested IS NOT NULL AND locked_by = $1::uuid ORDER BY id;
