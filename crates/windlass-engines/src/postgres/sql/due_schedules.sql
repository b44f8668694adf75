-- due_schedules: the store's now, when somebody has to look at a schedule next that is not due yet, and those that are due,
-- longest due first, after the end of another page.
-- $1 now, or null for the server's clock   $2 at most so many   $3 when the last one of that page was to be looked at, or null
-- $4 its name
-- plan: sorts: a page of schedules
SELECT clock.now, (SELECT min(n.look_at) FROM windlass.job_schedules n WHERE n.look_at > clock.now), s.name, s.version,
    s.last_job, s.record, s.look_at
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS clock LEFT JOIN LATERAL (
    SELECT * FROM windlass.job_schedules j
    WHERE j.look_at <= clock.now AND (j.look_at, j.name) > (coalesce($3::timestamptz, '-infinity'), $4::text)
    ORDER BY j.look_at, j.name LIMIT $2::integer
) AS s ON true ORDER BY s.look_at, s.name;
