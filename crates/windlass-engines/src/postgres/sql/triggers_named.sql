-- triggers_named: the store's now, whether there are triggers at all, and triggers of these names.
-- $1 now, or null for the server's clock   $2 names
-- plan: sorts: triggers, of which there are few
SELECT clock.now, EXISTS (SELECT 1 FROM windlass.completion_triggers), s.name, s.version, s.last_job, s.is_marked, s.record, s.look_at
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS clock LEFT JOIN LATERAL (
    SELECT d.name, d.version, d.last_job, 
        -- The first of each is enough: there may be very many.
        coalesce((SELECT true FROM windlass.completion_trigger_marks m WHERE m.trigger = d.name LIMIT 1), false) AS is_marked,
        d.record, d.look_at
    FROM windlass.completion_triggers d WHERE d.name = ANY ($2::text[])
) AS s ON true ORDER BY s.name;
