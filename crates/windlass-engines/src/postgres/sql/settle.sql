-- settle: moves jobs without an ordering key that succeeded and were not asked to stop to the history, each
-- only while its claim holds. A job whose row was written since the caller learned its ctid is not found
-- there and stays. The statement reads keys only if the caller requests it; a job whose key another session
-- has locked stays. It marks the completion triggers that watch these jobs. Returns whether all jobs left,
-- which did, whether one of them had a key and one a history, and whether a trigger was marked; the caller
-- settles the other jobs with the slower statements.
-- $1 now, or null for the server's clock   then by position, in the order of ids: $2 ids   $3 tokens
-- $4 run times in microseconds   $5 results   $6 outputs   $7 ctids of their rows, or nulls
-- then: $8 whether some may have keys; by position: $9 microseconds since each ended
WITH input AS MATERIALIZED (
    SELECT i.id, i.token, i.ran_for, i.ended_ago, i.result, i.output, coalesce($1::timestamptz, now()) AS at,
        coalesce(i.place, (SELECT j.ctid FROM windlass.delayed_jobs j WHERE j.id = i.id)) AS place
    FROM unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::text[], $6::text[], $7::tid[], $9::bigint[])
        AS i (id, token, ran_for, result, output, place, ended_ago)
), locked AS MATERIALIZED (
    SELECT k.job FROM input i
    -- A lookup for each, so that it is found by its id or name: otherwise the server might scan all jobs
    -- with a key, by a plan that was made when no job had one.
    CROSS JOIN LATERAL (
        SELECT j.job_type, j.key FROM windlass.delayed_jobs j WHERE j.id = i.id AND j.token = i.token OFFSET 0
    ) AS j
    CROSS JOIN LATERAL (
        SELECT k.job FROM windlass.job_keys k WHERE k.job_type = j.job_type AND k.key = j.key AND k.job = i.id OFFSET 0
        FOR UPDATE SKIP LOCKED
    ) AS k
    WHERE $8::boolean
), gone AS MATERIALIZED (
    DELETE FROM windlass.delayed_jobs j USING input i
    -- Not "=": the row is found by its ctid, never by its id.
    WHERE j.ctid = i.place AND j.id IS NOT DISTINCT FROM i.id AND j.token = i.token AND (j.key IS NULL OR j.id IN (SELECT job FROM locked))
        AND j.cancel_requested IS NULL AND j.ordering_key IS NULL
    RETURNING j.id, j.scheduled_at, j.created_at, j.expires_at, j.locked_by, j.token, j.attempts, j.max_attempts,
        j.failures, j.crashes, j.holds, j.priority, j.queue, j.job_type, j.key,
        {carried j}, j.progress, j.last_error, j.payload, i.at, i.ran_for, i.ended_ago, i.result, i.output
), by_claim AS MATERIALIZED (
    SELECT token, job_type, queue, count(*) AS n, count(key) AS keys FROM gone GROUP BY 1, 2, 3
), left_claims AS (
    INSERT INTO windlass.claim_ends (token, jobs) SELECT token, sum(n) FROM by_claim GROUP BY 1
), types AS MATERIALIZED (
    -- The few types among these jobs, so that no type is read for each job. A type whose row an operator
    -- has deleted has the default retention.
    SELECT g.job_type AS name, coalesce(t.retention_days, 7) AS retention_days, coalesce(t.keep_result, false) AS keep_result,
        coalesce($1::timestamptz, now()) + coalesce(t.retention_days, 7) * interval '1 day' AS keep_until
    FROM (SELECT DISTINCT job_type FROM by_claim) AS g LEFT JOIN windlass.job_types t ON t.name = g.job_type
), kept AS (
    INSERT INTO windlass.job_history (
        id, keep_until, scheduled_at, created_at, expires_at, ended_at, started_at, settled_by, worker,
        attempts, max_attempts, failures, crashes, holds, priority, state, queue, job_type, payload, key,
        {carried}, progress, last_error, result, ending, output
    )
    SELECT g.id, t.keep_until, g.scheduled_at, g.created_at, g.expires_at, g.at - g.ended_ago * interval '1 microsecond',
        g.at - (g.ended_ago + g.ran_for) * interval '1 microsecond', g.token, g.locked_by, g.attempts, g.max_attempts, g.failures,
        g.crashes, g.holds, g.priority, 1, g.queue, g.job_type, g.payload, g.key,
        {carried g}, g.progress, g.last_error, CASE WHEN t.keep_result THEN g.result END, 'succeeded', g.output
    FROM gone g JOIN types t ON t.name = g.job_type WHERE t.retention_days > 0
), freed AS (
    DELETE FROM windlass.job_keys k USING gone g
    WHERE $8::boolean AND k.job_type = g.job_type AND k.key = g.key AND k.job = g.id
        AND (k.until IS NULL OR k.until <= g.at)
), traced AS (
    INSERT INTO windlass.job_traces (settled_by, at, jobs)
    SELECT g.token, g.at, array_agg(g.id) FROM gone g JOIN types t ON t.name = g.job_type
    WHERE t.retention_days = 0 GROUP BY 1, 2
), forgotten AS (
    DELETE FROM windlass.attempts WHERE job = ANY (ARRAY (
        SELECT g.id FROM gone g JOIN types t ON t.name = g.job_type
        WHERE (g.attempts > 1 OR g.last_error IS NOT NULL) AND t.retention_days = 0
    ))
), counted AS (
    INSERT INTO windlass.count_deltas (job_type, queue, running, succeeded)
    SELECT job_type, queue, - sum(n), sum(n) FROM by_claim GROUP BY 1, 2
), marked AS (
    -- Completion triggers first: mostly there are none, and then nothing is compared.
    INSERT INTO windlass.completion_trigger_marks (trigger)
    SELECT d.name FROM windlass.completion_triggers d WHERE EXISTS (
        SELECT 1 FROM gone g WHERE {watched_by_d g}
    )
    RETURNING id
)
SELECT n = cardinality($2::bigint[]),
    CASE WHEN n < cardinality($2::bigint[]) THEN ARRAY (SELECT id FROM gone) ELSE '{}' END,
    CASE WHEN n < cardinality($2::bigint[]) THEN ARRAY (SELECT token FROM gone) ELSE '{}' END,
    has_keys, EXISTS (SELECT 1 FROM types WHERE retention_days > 0), EXISTS (SELECT 1 FROM marked)
FROM (SELECT coalesce(sum(n), 0) AS n, coalesce(sum(keys), 0) > 0 AS has_keys FROM by_claim) AS told;
