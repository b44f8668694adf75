-- list_triggers: the store's now, whether there are triggers at all, and a page of triggers by name.
-- $1 now, or null for the server's clock   $2 after this one   $3 at most so many
-- plan: sorts: triggers, of which there are few
SELECT clock.now, EXISTS (SELECT 1 FROM windlass.completion_triggers), s.name, s.version, s.last_job, s.is_marked, s.record, s.look_at
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS clock LEFT JOIN LATERAL (
    SELECT d.name, d.version, d.last_job, 
        -- The first of each is enough: there may be very many.
        coalesce((SELECT true FROM windlass.completion_trigger_marks m WHERE m.trigger = d.name LIMIT 1), false) AS is_marked,
        d.record, d.look_at
    FROM windlass.completion_triggers d WHERE d.name > $2::text ORDER BY d.name LIMIT $3::integer
) AS s ON true ORDER BY s.name;
