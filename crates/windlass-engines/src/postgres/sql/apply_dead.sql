-- apply_dead: moves dead jobs to the dead-letter queue, each only while its claim holds or it waited.
-- Returns whether a completion trigger was marked.
-- by position: $1 ids   $2 tokens, or null if it waited   $3 attempts   $4 failures   $5 crashes   $6 holds
-- $7 errors, or null   $8 the token that settled it, or null   $9 ended at   $10 workers   $11 started at
-- $12 endings   $13 errors of the attempt   $14 outputs   $15 why each is dead
-- $16 whether each kept triggers unfinished that do not wait for retries, and $17 triggers that do
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(
        $1::bigint[], $2::uuid[], $3::integer[], $4::integer[], $5::integer[], $6::integer[], $7::text[], $8::uuid[],
        $9::timestamptz[], $10::uuid[], $11::timestamptz[], $12::text[], $13::text[], $14::text[], $15::text[],
        $16::boolean[], $17::boolean[]
    ) AS i (
        id, claim, attempts_now, failures_now, crashes_now, holds_now, error, settled,
        ended_at, worker, started_at, ending, attempt_error, output, why, frees, frees_patient
    )
), gone AS (
    DELETE FROM windlass.delayed_jobs j USING input i
    WHERE j.id = i.id AND j.token IS NOT DISTINCT FROM i.claim
    RETURNING j.*, i.attempts_now, i.failures_now, i.crashes_now, i.holds_now, i.error, i.settled, i.ended_at, i.worker,
        i.started_at, i.ending, i.attempt_error, i.output, i.why, i.frees, i.frees_patient
), left_claims AS (
    INSERT INTO windlass.claim_ends (token, jobs) SELECT token, count(*) FROM gone WHERE token IS NOT NULL GROUP BY 1
), buried AS (
    INSERT INTO windlass.delayed_jobs_dlq (
        id, scheduled_at, created_at, expires_at, settled_by, attempts, max_attempts, failures, crashes, holds, priority,
        queue, job_type, payload, key, {carried}, progress, last_error, error, ended_at, worker,
        started_at, ending, attempt_error, output
    )
    SELECT id, scheduled_at, created_at, expires_at, coalesce(settled, settled_by), attempts_now, max_attempts,
        failures_now, crashes_now, holds_now, priority, queue, job_type, payload, key,
        {carried}, progress, coalesce(error, last_error), why, ended_at, worker, started_at, ending, attempt_error,
        output
    FROM gone
), marked AS (
    INSERT INTO windlass.completion_trigger_marks (trigger)
    SELECT d.name FROM windlass.completion_triggers d WHERE EXISTS (
        SELECT 1 FROM gone g
        WHERE {watched_by_d g} AND CASE WHEN d.wait_for_retries THEN g.frees_patient ELSE g.frees END
    )
    RETURNING id
)
SELECT EXISTS (SELECT 1 FROM marked);
