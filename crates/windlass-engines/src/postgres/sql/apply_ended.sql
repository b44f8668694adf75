-- apply_ended: moves jobs that succeeded or were cancelled to the history, if their type keeps one, each
-- only while its claim holds or it waited. Returns whether a completion trigger was marked. If an operator
-- has deleted the row of a type, its jobs get the default retention.
-- by position: $1 ids   $2 tokens, or null if it waited   $3 attempts   $4 failures   $5 crashes   $6 holds
-- $7 errors, or null   $8 the token that settled it, or null; $9 now   by position: $10 workers
-- $11 started at
-- $12 endings   $13 errors of the attempt   $14 outputs   $15 states   $16 results   $17 why
-- $18 whether each kept triggers unfinished that do not wait for retries, and $19 triggers that do
-- $20 ended at
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(
        $1::bigint[], $2::uuid[], $3::integer[], $4::integer[], $5::integer[], $6::integer[], $7::text[], $8::uuid[],
        $10::uuid[], $11::timestamptz[], $12::text[], $13::text[], $14::text[], $15::smallint[], $16::text[], $17::text[],
        $18::boolean[], $19::boolean[], $20::timestamptz[]
    ) AS i (
        id, claim, attempts_now, failures_now, crashes_now, holds_now, error, settled,
        worker, started_at, ending, attempt_error, output, state, result, why, frees, frees_patient, ended_at
    )
), gone AS MATERIALIZED (
    DELETE FROM windlass.delayed_jobs j USING input i
    WHERE j.id = i.id AND j.token IS NOT DISTINCT FROM i.claim
    RETURNING j.*, i.attempts_now, i.failures_now, i.crashes_now, i.holds_now, i.error, i.settled, i.worker,
        i.started_at, i.ending, i.attempt_error, i.output, i.state, i.result, i.why, i.frees,
        i.frees_patient, i.ended_at
), left_claims AS (
    INSERT INTO windlass.claim_ends (token, jobs) SELECT token, count(*) FROM gone WHERE token IS NOT NULL GROUP BY 1
), kept AS (
    INSERT INTO windlass.job_history (
        id, keep_until, scheduled_at, created_at, expires_at, ended_at, started_at, settled_by, worker,
        attempts, max_attempts, failures, crashes, holds, priority, state, queue, job_type, payload, key,
        {carried}, progress, last_error, result, why, ending, attempt_error, output
    )
    SELECT g.id, $9::timestamptz + coalesce(t.retention_days, 7) * interval '1 day', g.scheduled_at, g.created_at,
        g.expires_at, g.ended_at, g.started_at, coalesce(g.settled, g.settled_by), g.worker, g.attempts_now, g.max_attempts,
        g.failures_now, g.crashes_now, g.holds_now, g.priority, g.state, g.queue, g.job_type, g.payload, g.key,
        {carried g}, g.progress, coalesce(g.error, g.last_error), g.result, g.why,
        g.ending, g.attempt_error, g.output
    FROM gone g LEFT JOIN windlass.job_types t ON t.name = g.job_type
    WHERE coalesce(t.retention_days, 7) > 0
), traced AS (
    INSERT INTO windlass.job_traces (settled_by, at, jobs)
    SELECT coalesce(g.settled, g.settled_by), $9::timestamptz, ARRAY[g.id]
    FROM gone g JOIN windlass.job_types t ON t.name = g.job_type
    WHERE t.retention_days = 0 AND coalesce(g.settled, g.settled_by) IS NOT NULL
), forgotten AS (
    DELETE FROM windlass.attempts WHERE job = ANY (ARRAY (
        SELECT g.id FROM gone g JOIN windlass.job_types t ON t.name = g.job_type WHERE t.retention_days = 0
    ))
), marked AS (
    INSERT INTO windlass.completion_trigger_marks (trigger)
    SELECT d.name FROM windlass.completion_triggers d WHERE EXISTS (
        SELECT 1 FROM gone g
        WHERE {watched_by_d g} AND CASE WHEN d.wait_for_retries THEN g.frees_patient ELSE g.frees END
    )
    RETURNING id
)
SELECT EXISTS (SELECT 1 FROM marked);
