-- queue_has_work: reads the marks of a completion trigger, and whether any job of a queue could run, or has
-- not ended, except the jobs of the triggers that watch it. Running jobs are among those that are due and
-- have no gate.
-- $1 queue   $2 now, or null for the server's clock
-- $3 whether the trigger waits for retries: then only the second answer is computed, and else only the first
-- $4 the trigger   $5 limit of its marks
-- The same statement reads the marks, so it sees them in the same snapshot as the jobs: each mark belongs
-- to an end that it sees, and each job that it still sees will leave another mark.
WITH clock AS MATERIALIZED (
    -- Not now(): jobs that were enqueued since this transaction began count, too.
    SELECT coalesce($2::timestamptz, clock_timestamp()) AS now,
        ARRAY (SELECT d.name FROM windlass.completion_triggers d WHERE d.kind = 'queue' AND d.watched = $1::text) AS hooks
)
SELECT NOT $3::boolean AND (EXISTS (
    -- One priority after another, so that scheduled jobs of the future are not scanned.
    SELECT 1 FROM generate_series(0, 10) AS p (priority) CROSS JOIN LATERAL (
        SELECT 1 FROM windlass.delayed_jobs j
        WHERE j.queue = $1::text AND j.gate IS NULL AND j.priority = p.priority::smallint
            AND j.scheduled_at <= (SELECT now FROM clock)
            AND NOT {of_hooks j}
        LIMIT 1
    ) AS waits
) OR EXISTS (
    SELECT 1 FROM windlass.delayed_jobs j
    WHERE j.queue = $1::text AND coalesce(j.gate, '') <> '' AND j.gate COLLATE "C" = 'suspect'
        AND j.scheduled_at <= (SELECT now FROM clock)
        AND NOT {of_hooks j}
) OR EXISTS (
    SELECT 1 FROM windlass.delayed_jobs j
    WHERE j.queue = $1::text AND coalesce(j.gate, '') <> '' AND j.gate COLLATE "C" >= 'ordering_key:' AND j.gate COLLATE "C" < 'ordering_key;'
        AND j.scheduled_at <= (SELECT now FROM clock)
        AND NOT {of_hooks j}
)), $3::boolean AND (EXISTS (
    SELECT 1 FROM windlass.delayed_jobs j
    WHERE j.queue = $1::text AND j.gate IS NULL
        AND NOT {of_hooks j}
) OR EXISTS (
    SELECT 1 FROM windlass.delayed_jobs j
    WHERE j.queue = $1::text AND coalesce(j.gate, '') <> ''
        AND NOT {of_hooks j}
)), ARRAY (
    SELECT m.id FROM windlass.completion_trigger_marks m WHERE m.trigger = $4::text LIMIT $5::integer
);
