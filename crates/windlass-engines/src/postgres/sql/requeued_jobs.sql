-- requeued_jobs: lists where jobs were requeued lately, as a scan reports it.
-- plan: sorts: the places of requeues in the last ten seconds, by queue and priority
SELECT queue, priority, min(scheduled_at) FROM windlass.requeued_jobs
WHERE at > statement_timestamp() - interval '10 seconds' GROUP BY queue, priority;
