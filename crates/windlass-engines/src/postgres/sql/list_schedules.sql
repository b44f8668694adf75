-- list_schedules: reads the store's clock, the next time at which a schedule must be checked, and a page of
-- schedules by name.
-- $1 now, or null for the server's clock   $2 after this one   $3 limit
-- plan: sorts: a page of schedules
SELECT clock.now, (SELECT min(n.look_at) FROM windlass.job_schedules n WHERE n.look_at > clock.now), s.name, s.version,
    s.last_job, s.record, s.look_at
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS clock LEFT JOIN LATERAL (
    SELECT * FROM windlass.job_schedules j WHERE j.name > $2::text ORDER BY j.name LIMIT $3::integer
) AS s ON true ORDER BY s.name;
