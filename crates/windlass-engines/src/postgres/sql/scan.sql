-- scan: scans queues from the front. Five kinds of rows:
-- 1. With a priority: the first job of it that waits without a gate, due or not, with its fairness key. If
--    only some types are requested, only due jobs: a million others that are not yet due may stand in front
--    of the first.
-- 2. Without a priority: the first suspect.
-- 3. With priority -1: the queue has jobs with fairness keys, but its row does not say so.
-- 4. By the queue's name: where jobs were requeued lately. Late jobs may arrive late, so the last seconds
--    are read again.
-- 5. The version of the catalogue with the time, and whether ordering keys are marked, in a row of its own.
-- by position: $1 queues   $2 types of each as JSON, or null for all   $3 now, or null for the server's clock
-- plan: walks ordering_key_marks_ordering_key: it stops at the first row
-- plan: sorts: the places of requeues in the last ten seconds, by queue and priority
SELECT s.place::bigint, p.priority::smallint, first.scheduled_at, first.id, first.fairness_key
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS s (queue, types, place)
CROSS JOIN generate_series(0, 10) AS p (priority)
CROSS JOIN LATERAL (
    SELECT j.scheduled_at, j.id, j.fairness_key FROM windlass.delayed_jobs j
    WHERE j.locked_at IS NULL AND j.gate IS NULL AND j.queue = s.queue AND j.priority = p.priority
        AND (s.types IS NULL OR s.types::jsonb ? j.job_type)
        AND j.scheduled_at <= CASE WHEN s.types IS NULL THEN 'infinity' ELSE coalesce($3::timestamptz, now()) END
    ORDER BY j.scheduled_at, j.id LIMIT 1
) AS first
UNION ALL
SELECT s.place, NULL, first.scheduled_at, first.id, NULL
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS s (queue, types, place)
CROSS JOIN LATERAL (
    SELECT j.scheduled_at, j.id FROM windlass.delayed_jobs j
    WHERE j.queue = s.queue AND coalesce(j.gate, '') <> '' AND j.gate COLLATE "C" = 'suspect'
        AND (s.types IS NULL OR s.types::jsonb ? j.job_type)
    ORDER BY j.scheduled_at LIMIT 1
) AS first
UNION ALL
SELECT s.place, (-1)::smallint, now(), NULL, NULL
FROM unnest($1::text[]) WITH ORDINALITY AS s (queue, place) JOIN windlass.queues q ON q.name = s.queue
WHERE q.fairness_keys_since IS NULL AND EXISTS (
    SELECT 1 FROM generate_series(0, 10) AS p (priority) CROSS JOIN LATERAL (
        SELECT 1 FROM windlass.delayed_jobs j
        WHERE j.queue = s.queue AND j.priority = p.priority AND j.fairness_key > '' AND j.fairness_key IS NOT NULL AND j.gate IS NULL
        LIMIT 1
    ) AS one
)
UNION ALL
SELECT NULL, priority, min(scheduled_at), NULL, queue FROM windlass.requeued_jobs
WHERE at > statement_timestamp() - interval '10 seconds' GROUP BY queue, priority
UNION ALL
SELECT NULL, NULL, coalesce($3::timestamptz, clock_timestamp()), version,
    CASE WHEN EXISTS (SELECT 1 FROM windlass.ordering_key_marks) THEN 'ordering_key' END
FROM windlass.catalogue;
