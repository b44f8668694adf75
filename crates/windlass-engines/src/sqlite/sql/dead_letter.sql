-- dead_letter: reads what starting over or discarding a dead letter needs.
-- ?1 id
SELECT type, key, options, enqueued_at, attempts, worker, started_at, ended_at, ending, attempt_error, output
FROM delayed_jobs_dlq WHERE id = ?1;
