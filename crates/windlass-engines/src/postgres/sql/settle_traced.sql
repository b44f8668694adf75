-- settle_traced: settles as `settle` does, for jobs without keys and ordering keys whose types have no
-- history: they leave a trace, and no payload is carried from one step to the next. Other jobs stay, and
-- need `settle`. Returns whether all jobs left, which did, and whether a completion trigger was marked.
-- None of the jobs was enqueued by a trigger, since the jobs of triggers have keys.
-- $1 now, or null for the server's clock   then by position, in the order of ids: $2 ids   $3 tokens
-- $4 ctids of their rows, or nulls   then: $5 types without a history, as far as the caller knows
WITH input AS MATERIALIZED (
    SELECT i.id, i.token, coalesce(i.place, (SELECT j.ctid FROM windlass.delayed_jobs j WHERE j.id = i.id)) AS place
    FROM unnest($2::bigint[], $3::uuid[], $4::tid[]) AS i (id, token, place)
), gone AS MATERIALIZED (
    DELETE FROM windlass.delayed_jobs j USING input i
    -- Not "=": the row is found by its ctid, never by its id.
    WHERE j.ctid = i.place AND j.id IS NOT DISTINCT FROM i.id AND j.token = i.token AND j.key IS NULL
        AND j.cancel_requested IS NULL AND j.ordering_key IS NULL
        AND j.job_type = ANY (ARRAY (
            SELECT t.name FROM windlass.job_types t WHERE t.name = ANY ($5::text[]) AND t.retention_days = 0
        ))
    RETURNING j.id, j.token, j.job_type, j.queue, j.job_group, j.attempts > 1 OR j.last_error IS NOT NULL AS has_attempts
), traced AS (
    INSERT INTO windlass.job_traces (settled_by, at, jobs)
    SELECT token, coalesce($1::timestamptz, now()), array_agg(id) FROM gone GROUP BY 1
    RETURNING settled_by, cardinality(jobs) AS n
), left_claims AS (
    INSERT INTO windlass.claim_ends (token, jobs) SELECT settled_by, n FROM traced
), forgotten AS (
    DELETE FROM windlass.attempts WHERE job = ANY (ARRAY (SELECT id FROM gone WHERE has_attempts))
), counted AS (
    INSERT INTO windlass.count_deltas (job_type, queue, running, succeeded)
    SELECT job_type, queue, - count(*), count(*) FROM gone GROUP BY 1, 2
), marked AS (
    -- Completion triggers first: mostly there are none, and then nothing is compared.
    INSERT INTO windlass.completion_trigger_marks (trigger)
    SELECT d.name FROM windlass.completion_triggers d WHERE EXISTS (
        SELECT 1 FROM gone g WHERE d.watched = CASE d.kind WHEN 'queue' THEN g.queue WHEN 'type' THEN g.job_type ELSE g.job_group END
    )
    RETURNING id
)
SELECT n = cardinality($2::bigint[]),
    CASE WHEN n < cardinality($2::bigint[]) THEN ARRAY (SELECT id FROM gone) ELSE '{}' END,
    CASE WHEN n < cardinality($2::bigint[]) THEN ARRAY (SELECT token FROM gone) ELSE '{}' END,
    EXISTS (SELECT 1 FROM marked)
FROM (SELECT coalesce(sum(n), 0) AS n FROM traced) AS told;
