-- queue_has_work: marks of a drain, and whether anything of a queue could run, or has not ended, but for the jobs of the drains
-- that watch it. What runs is among what is due and has no gate.
-- $1 queue   $2 now, or null for the server's clock
-- $3 whether the drain waits for retries: then only the second is asked for, and else only the first
-- $4 the drain   $5 at most so many of its marks
-- The marks are read by the same statement, and so see just what the rest of it sees: each of them belongs to an end that it sees, and
-- what it still sees will leave another.
WITH clock AS MATERIALIZED (
    -- Not now(): what came in since this transaction began counts, too.
    SELECT coalesce($2::timestamptz, clock_timestamp()) AS now,
        ARRAY (SELECT d.name FROM windlass.completion_triggers d WHERE d.kind = 'queue' AND d.watched = $1::text) AS hooks
)
SELECT NOT $3::boolean AND (EXISTS (
    -- One priority after another, so that what lies in the future is not walked over.
    SELECT 1 FROM generate_series(0, 10) AS p (priority) CROSS JOIN LATERAL (
        SELECT 1 FROM windlass.delayed_jobs j
        WHERE j.queue = $1::text AND j.gate IS NULL AND j.priority = p.priority::smallint
            AND j.scheduled_at <= (SELECT now FROM clock)
            AND NOT coalesce(j.key LIKE 'trigger/%/%' AND split_part(j.key, '/', 2) COLLATE "C" = ANY ((SELECT hooks FROM clock)::text[]), false)
        LIMIT 1
    ) AS waits
) OR EXISTS (
    SELECT 1 FROM windlass.delayed_jobs j
    WHERE j.queue = $1::text AND coalesce(j.gate, '') <> '' AND j.gate COLLATE "C" = 'suspect'
        AND j.scheduled_at <= (SELECT now FROM clock)
        AND NOT coalesce(j.key LIKE 'trigger/%/%' AND split_part(j.key, '/', 2) COLLATE "C" = ANY ((SELECT hooks FROM clock)::text[]), false)
) OR EXISTS (
    SELECT 1 FROM windlass.delayed_jobs j
    WHERE j.queue = $1::text AND coalesce(j.gate, '') <> '' AND j.gate COLLATE "C" >= 'ordering_key:' AND j.gate COLLATE "C" < 'ordering_key;'
        AND j.scheduled_at <= (SELECT now FROM clock)
        AND NOT coalesce(j.key LIKE 'trigger/%/%' AND split_part(j.key, '/', 2) COLLATE "C" = ANY ((SELECT hooks FROM clock)::text[]), false)
)), $3::boolean AND (EXISTS (
    SELECT 1 FROM windlass.delayed_jobs j
    WHERE j.queue = $1::text AND j.gate IS NULL
        AND NOT coalesce(j.key LIKE 'trigger/%/%' AND split_part(j.key, '/', 2) COLLATE "C" = ANY ((SELECT hooks FROM clock)::text[]), false)
) OR EXISTS (
    SELECT 1 FROM windlass.delayed_jobs j
    WHERE j.queue = $1::text AND coalesce(j.gate, '') <> ''
        AND NOT coalesce(j.key LIKE 'trigger/%/%' AND split_part(j.key, '/', 2) COLLATE "C" = ANY ((SELECT hooks FROM clock)::text[]), false)
)), ARRAY (
    SELECT m.id FROM windlass.completion_trigger_marks m WHERE m.trigger = $4::text LIMIT $5::integer
);
