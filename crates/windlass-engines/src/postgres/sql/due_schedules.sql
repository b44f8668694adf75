-- due_schedules: reads the store's clock, the next time at which a schedule that is not due yet must be
-- checked, and the schedules that are due, longest due first, after the end of the previous page.
-- $1 now, or null for the server's clock   $2 limit
-- $3 check time of the last schedule of the previous page, or null
-- $4 its name
-- plan: sorts: a page of schedules
SELECT clock.now, (SELECT min(n.look_at) FROM windlass.job_schedules n WHERE n.look_at > clock.now), s.name, s.version,
    s.last_job, s.record, s.look_at
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS clock LEFT JOIN LATERAL (
    SELECT * FROM windlass.job_schedules j
    WHERE j.look_at <= clock.now AND (j.look_at, j.name) > (coalesce($3::timestamptz, '-infinity'), $4::text)
    ORDER BY j.look_at, j.name LIMIT $2::integer
) AS s ON true ORDER BY s.look_at, s.name;
