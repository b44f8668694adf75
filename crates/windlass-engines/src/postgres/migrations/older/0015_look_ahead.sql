-- look_ahead: what lies ahead in a queue: whether something is due (also if it is too late: a claim ends it), in how many
-- microseconds the next falls due, and whether a suspect is due.
-- $1 now, or null for the server's clock   $2 queue   $3 types, or null for all
-- by position, where each priority starts: $4 priorities   $5 and $6 due time and number
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, now()) AS at
), cursors AS MATERIALIZED (
    SELECT (
        SELECT j.scheduled_at FROM windlass.delayed_jobs j
        WHERE j.locked_at IS NULL AND j.gate IS NULL AND j.queue = $2::text AND j.priority = span.priority
            AND (j.scheduled_at, j.id) > (span.after_due, span.after_id) AND j.scheduled_at <= clock.at
            AND ($3::text[] IS NULL OR j.job_type = ANY ($3::text[]))
        ORDER BY j.scheduled_at, j.id LIMIT 1
    ) AS due_now, (
        SELECT j.scheduled_at FROM windlass.delayed_jobs j
        WHERE j.locked_at IS NULL AND j.gate IS NULL AND j.queue = $2::text AND j.priority = span.priority
            AND j.scheduled_at > clock.at AND ($3::text[] IS NULL OR j.job_type = ANY ($3::text[]))
        ORDER BY j.scheduled_at, j.id LIMIT 1
    ) AS due_later
    FROM clock, unnest($4::smallint[], $5::timestamptz[], $6::bigint[]) AS span (priority, after_due, after_id)
), suspects AS MATERIALIZED (
    SELECT bool_or(j.scheduled_at <= clock.at) AS due_now,
        min(j.scheduled_at) FILTER (WHERE j.scheduled_at > clock.at) AS due_later
    FROM clock, windlass.delayed_jobs j
    WHERE j.gate = 'suspect' AND j.queue = $2::text AND ($3::text[] IS NULL OR j.job_type = ANY ($3::text[]))
)
SELECT (SELECT count(due_now) > 0 FROM cursors),
    (extract(epoch FROM least(
        (SELECT min(due_later) FROM cursors), (SELECT due_later FROM suspects)
    ) - clock.at) * 1000000)::bigint,
    coalesce((SELECT due_now FROM suspects), false)
FROM clock;
