-- list_drains: the store's now, whether there are drains at all, and a page of drains by name.
-- $1 now, or null for the server's clock   $2 after this one   $3 at most so many
SELECT clock.now, EXISTS (SELECT 1 FROM windlass.job_drains), s.name, s.version, s.last_job, s.is_marked, s.record, s.look_at
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS clock LEFT JOIN LATERAL (
    SELECT d.name, d.version, d.last_job, EXISTS (SELECT 1 FROM windlass.drain_marks m WHERE m.drain = d.name) AS is_marked,
        d.record, d.look_at
    FROM windlass.job_drains d WHERE d.name > $2::text ORDER BY d.name LIMIT $3::integer
) AS s ON true ORDER BY s.name;
