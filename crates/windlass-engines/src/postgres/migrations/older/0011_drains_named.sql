-- drains_named: the store's now, whether there are drains at all, and drains of these names.
-- $1 now, or null for the server's clock   $2 names
SELECT clock.now, EXISTS (SELECT 1 FROM windlass.job_drains), s.name, s.version, s.last_job, s.is_marked, s.record, s.look_at
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS clock LEFT JOIN LATERAL (
    SELECT d.name, d.version, d.last_job, EXISTS (SELECT 1 FROM windlass.drain_marks m WHERE m.drain = d.name) AS is_marked,
        d.record, d.look_at
    FROM windlass.job_drains d WHERE d.name = ANY ($2::text[])
) AS s ON true ORDER BY s.name;
