-- look: from the very front, the first of each priority that waits without a gate, due or not; and, by the queue's name,
-- where jobs were put back lately. Late ones may come in late, so the last seconds are read again.
-- by position: $1 queues   $2 types of each as JSON, or null for all
SELECT s.place::bigint, p.priority::smallint, first.scheduled_at, first.id, NULL::text
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS s (queue, types, place)
CROSS JOIN generate_series(0, 10) AS p (priority)
CROSS JOIN LATERAL (
    SELECT j.scheduled_at, j.id FROM windlass.delayed_jobs j
    WHERE j.locked_at IS NULL AND j.gate IS NULL AND j.queue = s.queue AND j.priority = p.priority
        AND (s.types IS NULL OR s.types::jsonb ? j.job_type)
    ORDER BY j.scheduled_at, j.id LIMIT 1
) AS first
UNION ALL
SELECT NULL, priority, min(scheduled_at), NULL, queue FROM windlass.requeued_jobs
WHERE at > statement_timestamp() - interval '10 seconds' GROUP BY queue, priority;
