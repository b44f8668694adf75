-- apply_waiting: jobs wait again, each only while its claim holds or it waited. Those without a fairness key have the empty one where
-- others have fairness keys. Answers whether a drain was marked.
-- by position: $1 ids   $2 tokens, or null if it waited   $3 attempts   $4 failures   $5 crashes   $6 holds
-- $7 errors, or null   $8 the token that settled it, or null if the claim was taken away   $9 due   $10 gates
-- $11 whether each held drains and holds them no more: those that do not wait for retries, and $12 those that do
WITH landed AS (
    UPDATE windlass.delayed_jobs j
    SET scheduled_at = i.due, gate = i.gate, attempts = i.attempts, failures = i.failures, crashes = i.crashes,
        holds = i.holds, last_error = coalesce(i.error, j.last_error), settled_by = coalesce(i.settled_by, j.settled_by),
        fairness_key = coalesce(j.fairness_key, (SELECT '' FROM windlass.queues q WHERE q.name = j.queue AND q.fairness_keys_since IS NOT NULL)),
        started = i.attempts > 0, token = NULL, locked_by = NULL, locked_at = NULL, boosted = NULL, cancel_requested = NULL
    FROM unnest(
        $1::bigint[], $2::uuid[], $3::integer[], $4::integer[], $5::integer[], $6::integer[], $7::text[], $8::uuid[],
        $9::timestamptz[], $10::text[], $11::boolean[], $12::boolean[]
    ) AS i (id, token, attempts, failures, crashes, holds, error, settled_by, due, gate, frees, frees_patient)
    WHERE j.id = i.id AND j.token IS NOT DISTINCT FROM i.token
    RETURNING i.token, j.queue, j.job_type, j.job_group, j.key, i.frees, i.frees_patient
), left_claims AS (
    INSERT INTO windlass.claim_ends (token, jobs) SELECT token, count(*) FROM landed WHERE token IS NOT NULL GROUP BY 1
), marked AS (
    INSERT INTO windlass.drain_marks (drain)
    SELECT d.name FROM windlass.job_drains d WHERE EXISTS (
        SELECT 1 FROM landed g
        WHERE d.watched = CASE d.kind WHEN 'queue' THEN g.queue WHEN 'type' THEN g.job_type ELSE g.job_group END
            AND CASE WHEN d.wait_for_retries THEN g.frees_patient ELSE g.frees END
            AND NOT coalesce(starts_with(g.key, 'drain/' || d.name || '/'), false)
    )
    RETURNING id
)
SELECT EXISTS (SELECT 1 FROM marked);
