-- settle: jobs that succeeded and were not asked to stop leave for the history, each only while its claim holds. Keys are
-- looked at only if the caller says so; whose key somebody has locked is left. Answers whether all left, which did, and
-- whether one of them had a key; the others need a closer look.
-- $1 now, or null for the server's clock   then by position, in the order of numbers: $2 ids   $3 tokens
-- $4 ran for so many microseconds   $5 results   $6 outputs   then: $7 whether some may have keys
WITH input AS MATERIALIZED (
    SELECT i.*, coalesce($1::timestamptz, now()) AS at
    FROM unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::text[], $6::text[])
        AS i (id, token, ran_for, result, output)
), locked AS MATERIALIZED (
    SELECT k.job FROM input i
    JOIN windlass.delayed_jobs j ON j.id = i.id AND j.token = i.token AND j.key IS NOT NULL
    JOIN windlass.job_keys k ON k.job_type = j.job_type AND k.key = j.key
    WHERE $7::boolean AND k.job = j.id
    FOR UPDATE OF k SKIP LOCKED
), gone AS MATERIALIZED (
    DELETE FROM windlass.delayed_jobs j USING input i, windlass.job_types t
    WHERE j.id = i.id AND j.token = i.token AND (j.key IS NULL OR j.id IN (SELECT job FROM locked))
        AND j.cancel_requested IS NULL AND t.name = j.job_type
    RETURNING j.*, i.at, i.ran_for, i.result, i.output, t.retention_days, t.keep_result
), kept AS (
    INSERT INTO windlass.job_history (
        id, keep_until, scheduled_at, created_at, expires_at, ended_at, started_at, settled_by, worker,
        attempts, max_attempts, failures, crashes, holds, priority, state, queue, job_type, payload, key,
        correlation, job_group, tags, options, progress, last_error, result, ending, output
    )
    SELECT g.id, g.at + g.retention_days * interval '1 day', g.scheduled_at, g.created_at, g.expires_at, g.at,
        g.at - g.ran_for * interval '1 microsecond', g.token, g.locked_by, g.attempts, g.max_attempts, g.failures,
        g.crashes, g.holds, g.priority, 1, g.queue, g.job_type, g.payload, g.key, g.correlation, g.job_group,
        g.tags, g.options, g.progress, g.last_error, CASE WHEN g.keep_result THEN g.result END, 'succeeded', g.output
    FROM gone g WHERE g.retention_days > 0
), freed AS (
    DELETE FROM windlass.job_keys k USING gone g
    WHERE $7::boolean AND k.job_type = g.job_type AND k.key = g.key AND k.job = g.id
        AND (k.until IS NULL OR k.until <= g.at)
), traced AS (
    INSERT INTO windlass.job_traces (job, at, settled_by)
    SELECT id, at, token FROM gone WHERE retention_days = 0
), forgotten AS (
    DELETE FROM windlass.attempts WHERE job IN (SELECT id FROM gone WHERE attempts > 1 AND retention_days = 0)
), counted AS (
    INSERT INTO windlass.count_deltas (job_type, queue, running, succeeded)
    SELECT job_type, queue, - count(*), count(*) FROM gone GROUP BY 1, 2
)
SELECT count(*) = cardinality($2::bigint[]), coalesce(array_agg(id), '{}'), coalesce(array_agg(token), '{}'),
    count(key) > 0
FROM gone;
