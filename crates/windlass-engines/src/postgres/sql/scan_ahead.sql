-- scan_ahead: peeks at the rest of a queue: whether a job is due (also an expired one: a claim ends it), in
-- how many microseconds the next job falls due, and whether a suspect is due.
-- If only some types are requested, a million jobs of other types may stand in front of the first of them.
-- Of jobs that are not yet due, the statement reads a thousand of each priority. If none of those has a
-- requested type, the next scan is due when the last of them falls due. A job that is due at infinity never
-- falls due.
-- $1 now, or null for the server's clock   $2 queue   $3 types, or null for all
-- by position, where each priority starts: $4 priorities   $5 and $6 due time and id
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, now()) AS at
), cursors AS MATERIALIZED (
    SELECT (
        SELECT j.scheduled_at FROM windlass.delayed_jobs j
        WHERE j.locked_at IS NULL AND j.gate IS NULL AND j.queue = $2::text AND j.priority = span.priority
            AND (j.scheduled_at, j.id) > (span.after_due, span.after_id) AND j.scheduled_at <= clock.at
            AND ($3::text[] IS NULL OR j.job_type = ANY ($3::text[]))
        ORDER BY j.scheduled_at, j.id LIMIT 1
    ) AS due_now, coalesce((
        SELECT ahead.scheduled_at FROM (
            SELECT j.scheduled_at, j.id, j.job_type FROM windlass.delayed_jobs j
            WHERE j.locked_at IS NULL AND j.gate IS NULL AND j.queue = $2::text AND j.priority = span.priority
                AND j.scheduled_at > clock.at AND j.scheduled_at < 'infinity'
            ORDER BY j.scheduled_at, j.id LIMIT 1000
        ) AS ahead
        WHERE $3::text[] IS NULL OR ahead.job_type = ANY ($3::text[])
        ORDER BY ahead.scheduled_at, ahead.id LIMIT 1
    ), CASE WHEN $3::text[] IS NOT NULL THEN (
        SELECT j.scheduled_at FROM windlass.delayed_jobs j
        WHERE j.locked_at IS NULL AND j.gate IS NULL AND j.queue = $2::text AND j.priority = span.priority
            AND j.scheduled_at > clock.at AND j.scheduled_at < 'infinity'
        ORDER BY j.scheduled_at, j.id LIMIT 1 OFFSET 999
    ) END) AS due_later
    FROM clock, unnest($4::smallint[], $5::timestamptz[], $6::bigint[]) AS span (priority, after_due, after_id)
), suspects AS MATERIALIZED (
    SELECT EXISTS (
        SELECT 1 FROM windlass.delayed_jobs j
        WHERE j.queue = $2::text AND coalesce(j.gate, '') <> '' AND j.gate COLLATE "C" = 'suspect'
            AND j.scheduled_at <= clock.at AND ($3::text[] IS NULL OR j.job_type = ANY ($3::text[]))
    ) AS due_now, (
        SELECT j.scheduled_at FROM windlass.delayed_jobs j
        WHERE j.queue = $2::text AND coalesce(j.gate, '') <> '' AND j.gate COLLATE "C" = 'suspect'
            AND j.scheduled_at > clock.at AND j.scheduled_at < 'infinity'
            AND ($3::text[] IS NULL OR j.job_type = ANY ($3::text[]))
        ORDER BY j.scheduled_at LIMIT 1
    ) AS due_later
    FROM clock
)
SELECT (SELECT count(due_now) > 0 FROM cursors),
    (extract(epoch FROM least(
        (SELECT min(due_later) FROM cursors), (SELECT due_later FROM suspects)
    ) - clock.at) * 1000000)::bigint,
    (SELECT due_now FROM suspects)
FROM clock;
