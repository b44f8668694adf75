-- settle: jobs without a key that succeeded and were not asked to stop leave for the history, each only while its claim
-- holds. Answers which did; the others need a closer look.
-- $1 now, or null for the server's clock   then by position, in the order of numbers: $2 ids   $3 tokens
-- $4 ran for so many microseconds   $5 results   $6 outputs
WITH input AS MATERIALIZED (
    SELECT i.*, coalesce($1::timestamptz, now()) AS at
    FROM unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::text[], $6::text[])
        AS i (id, token, ran_for, result, output)
), gone AS MATERIALIZED (
    DELETE FROM windlass.delayed_jobs j USING input i
    WHERE j.id = i.id AND j.token = i.token AND j.key IS NULL AND j.cancel_requested IS NULL
    RETURNING j.*, i.at, i.ran_for, i.result, i.output
), kept AS (
    INSERT INTO windlass.job_history (
        id, keep_until, scheduled_at, created_at, expires_at, ended_at, started_at, settled_by, worker,
        attempts, max_attempts, failures, crashes, holds, priority, state, queue, job_type, payload, correlation,
        job_group, tags, options, progress, last_error, result, ending, output
    )
    SELECT g.id, g.at + t.retention_days * interval '1 day', g.scheduled_at, g.created_at, g.expires_at, g.at,
        g.at - g.ran_for * interval '1 microsecond', g.token, g.locked_by, g.attempts, g.max_attempts, g.failures,
        g.crashes, g.holds, g.priority, 1, g.queue, g.job_type, g.payload, g.correlation, g.job_group, g.tags,
        g.options, g.progress, g.last_error, CASE WHEN t.keep_result THEN g.result END, 'succeeded', g.output
    FROM gone g JOIN windlass.job_types t ON t.name = g.job_type
    WHERE t.retention_days > 0
), traced AS (
    INSERT INTO windlass.job_traces (job, at, settled_by)
    SELECT g.id, g.at, g.token FROM gone g JOIN windlass.job_types t ON t.name = g.job_type
    WHERE t.retention_days = 0
), forgotten AS (
    DELETE FROM windlass.attempts a USING gone g JOIN windlass.job_types t ON t.name = g.job_type
    WHERE a.job = g.id AND g.attempts > 1 AND t.retention_days = 0
), counted AS (
    INSERT INTO windlass.count_deltas (job_type, queue, running, succeeded)
    SELECT job_type, queue, - count(*), count(*) FROM gone GROUP BY 1, 2
)
SELECT id, token FROM gone;
