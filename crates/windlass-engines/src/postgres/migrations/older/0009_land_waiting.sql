-- apply_waiting: jobs wait again, each only while its claim holds or it waited.
-- by position: $1 ids   $2 tokens, or null if it waited   $3 attempts   $4 failures   $5 crashes   $6 holds
-- $7 errors, or null   $8 the token that settled it, or null if the claim was taken away   $9 due   $10 gates
WITH landed AS (
    UPDATE windlass.delayed_jobs j
    SET scheduled_at = i.due, gate = i.gate, attempts = i.attempts, failures = i.failures, crashes = i.crashes,
        holds = i.holds, last_error = coalesce(i.error, j.last_error), settled_by = coalesce(i.settled_by, j.settled_by),
        started = i.attempts > 0, token = NULL, locked_by = NULL, locked_at = NULL, boosted = NULL, cancel_requested = NULL
    FROM unnest(
        $1::bigint[], $2::uuid[], $3::integer[], $4::integer[], $5::integer[], $6::integer[], $7::text[], $8::uuid[],
        $9::timestamptz[], $10::text[]
    ) AS i (id, token, attempts, failures, crashes, holds, error, settled_by, due, gate)
    WHERE j.id = i.id AND j.token IS NOT DISTINCT FROM i.token
    RETURNING i.token
)
INSERT INTO windlass.claim_ends (token, jobs)
SELECT token, count(*) FROM landed WHERE token IS NOT NULL GROUP BY 1;
