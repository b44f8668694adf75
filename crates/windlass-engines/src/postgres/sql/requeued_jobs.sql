-- requeued_jobs: where jobs were put back lately, as a look tells of it.
-- plan: sorts: where jobs were put back in the last ten seconds, by queue and priority
SELECT queue, priority, min(scheduled_at) FROM windlass.requeued_jobs
WHERE at > statement_timestamp() - interval '10 seconds' GROUP BY queue, priority;
