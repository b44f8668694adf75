-- schedules_named: reads the store's clock, the next time at which a schedule must be checked, and the
-- schedules of these names.
-- $1 now, or null for the server's clock   $2 names
-- plan: sorts: the schedules of one request
SELECT clock.now, (SELECT min(n.look_at) FROM windlass.job_schedules n WHERE n.look_at > clock.now), s.name, s.version,
    s.last_job, s.record, s.look_at
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS clock LEFT JOIN LATERAL (
    SELECT * FROM windlass.job_schedules j WHERE j.name = ANY ($2::text[])
) AS s ON true ORDER BY s.name;
