-- apply_waiting: makes jobs wait again, each only while its claim holds or it waited. Jobs without a
-- fairness key get the empty key where other jobs have fairness keys. If the caller knows the ctid of a
-- job, the row must still lie there as it was claimed, without a key, an ordering key, a request to stop,
-- or a lock. Returns whether a completion trigger was marked, whether all transitions were applied, and
-- otherwise the ids of those that were applied.
-- by position: $1 ids   $2 tokens, or null if it waited   $3 attempts   $4 failures   $5 crashes   $6 holds
-- $7 errors, or null   $8 the token that settled it, or null if the claim was taken away   $9 due   $10 gates
-- $11 whether each keeps triggers unfinished no longer that do not wait for retries, and $12 triggers that do
-- $13 ctids of their rows, or nulls   $14 of the rows with a known ctid, one id of each page
WITH cleared AS MATERIALIZED (
    -- A page is full once its jobs are claimed: half of it is the row versions from before. Access through
    -- an index prunes those, and access by ctid does not. On a pruned page there is room for the row
    -- versions written below. Otherwise each row is locked, moves to another page, and costs half as much
    -- again.
    SELECT count(locked_at) AS n FROM windlass.delayed_jobs WHERE id = ANY ($14::bigint[])
), input AS MATERIALIZED (
    SELECT i.*, i.known IS NOT NULL AS is_known,
        coalesce(i.known, (SELECT j.ctid FROM windlass.delayed_jobs j WHERE j.id = i.id)) AS place
    FROM cleared, unnest(
        $1::bigint[], $2::uuid[], $3::integer[], $4::integer[], $5::integer[], $6::integer[], $7::text[], $8::uuid[],
        $9::timestamptz[], $10::text[], $11::boolean[], $12::boolean[], $13::tid[]
    ) AS i (id, token, attempts, failures, crashes, holds, error, settled_by, due, gate, frees, frees_patient, known)
), applied AS (
    UPDATE windlass.delayed_jobs j
    SET scheduled_at = i.due, gate = i.gate, attempts = i.attempts, failures = i.failures, crashes = i.crashes,
        holds = i.holds, last_error = coalesce(i.error, j.last_error), settled_by = coalesce(i.settled_by, j.settled_by),
        -- The queues that have fairness keys are read once, not for each job.
        fairness_key = CASE WHEN j.fairness_key IS NULL AND j.queue = ANY (ARRAY (
            SELECT q.name FROM windlass.queues q WHERE q.fairness_keys_since IS NOT NULL
        )) THEN '' ELSE j.fairness_key END,
        started = i.attempts > 0, token = NULL, locked_by = NULL, locked_at = NULL, boosted = NULL, cancel_requested = NULL
    FROM input i
    -- Not "=": the row is found by its ctid, never by its id.
    WHERE j.ctid = i.place AND j.id IS NOT DISTINCT FROM i.id AND j.token IS NOT DISTINCT FROM i.token
        -- This statement has not locked these rows. A row that another session has locked, or had locked,
        -- is left out: waiting for it here would hold up the others. An xmax that the writer of the row
        -- left is no lock: that lock ended before the row became visible.
        AND (NOT i.is_known OR (
            j.key IS NULL AND j.ordering_key IS NULL AND j.cancel_requested IS NULL AND j.xmax IN ('0'::xid, j.xmin)
        ))
    RETURNING i.id, i.token, j.queue, j.job_type, j.job_group, j.key, i.frees, i.frees_patient
), left_claims AS (
    INSERT INTO windlass.claim_ends (token, jobs) SELECT token, count(*) FROM applied WHERE token IS NOT NULL GROUP BY 1
), marked AS (
    INSERT INTO windlass.completion_trigger_marks (trigger)
    SELECT d.name FROM windlass.completion_triggers d WHERE EXISTS (
        SELECT 1 FROM applied g
        WHERE {watched_by_d g} AND CASE WHEN d.wait_for_retries THEN g.frees_patient ELSE g.frees END
    )
    RETURNING id
)
SELECT EXISTS (SELECT 1 FROM marked), n = cardinality($1::bigint[]),
    CASE WHEN n < cardinality($1::bigint[]) THEN ARRAY (SELECT id FROM applied) ELSE '{}' END
FROM (SELECT count(*) AS n FROM applied) AS told;
