-- group_has_work: marks of a drain, and whether anything of a named group could run, or has not ended. What runs is among what is due and has no gate; the job
-- of a drain has no group.
-- $1 group   $2 now, or null for the server's clock
-- $3 whether the drain waits for retries: then only the second is asked for, and else only the first
-- $4 the drain   $5 at most so many of its marks
-- The marks are read by the same statement, and so see just what the rest of it sees: each of them belongs to an end that it sees, and
-- what it still sees will leave another.
WITH clock AS MATERIALIZED (
    -- Not now(): what came in since this transaction began counts, too.
    SELECT coalesce($2::timestamptz, clock_timestamp()) AS now
)
SELECT NOT $3::boolean AND (EXISTS (
    SELECT 1 FROM windlass.delayed_jobs j
    WHERE j.job_group = $1::text AND j.gate COLLATE "C" IS NULL AND j.scheduled_at <= (SELECT now FROM clock)
) OR EXISTS (
    SELECT 1 FROM windlass.delayed_jobs j
    WHERE j.job_group = $1::text AND j.gate COLLATE "C" = 'suspect' AND j.scheduled_at <= (SELECT now FROM clock)
) OR EXISTS (
    SELECT 1 FROM windlass.delayed_jobs j
    WHERE j.job_group = $1::text AND j.gate COLLATE "C" >= 'ordering_key:' AND j.gate COLLATE "C" < 'ordering_key;'
        AND j.scheduled_at <= (SELECT now FROM clock)
)), $3::boolean AND EXISTS (SELECT 1 FROM windlass.delayed_jobs j WHERE j.job_group = $1::text), ARRAY (
    SELECT m.id FROM windlass.completion_trigger_marks m WHERE m.trigger = $4::text LIMIT $5::integer
);
