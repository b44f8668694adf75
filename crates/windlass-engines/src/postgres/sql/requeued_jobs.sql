-- requeued_jobs: where jobs were put back lately, as a look tells of it.
SELECT queue, priority, min(scheduled_at) FROM windlass.requeued_jobs
WHERE at > statement_timestamp() - interval '10 seconds' GROUP BY queue, priority;
