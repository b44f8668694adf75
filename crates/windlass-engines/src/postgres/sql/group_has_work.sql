-- group_has_work: reads the marks of a completion trigger, and whether any job of a named group could run,
-- or has not ended. Running jobs are among those that are due and have no gate. The job of a trigger has no
-- group.
-- $1 group   $2 now, or null for the server's clock
-- $3 whether the trigger waits for retries: then only the second answer is computed, and else only the first
-- $4 the trigger   $5 limit of its marks
-- The same statement reads the marks, so it sees them in the same snapshot as the jobs: each mark belongs
-- to an end that it sees, and each job that it still sees will leave another mark.
WITH clock AS MATERIALIZED (
    -- Not now(): jobs that were enqueued since this transaction began count, too.
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
