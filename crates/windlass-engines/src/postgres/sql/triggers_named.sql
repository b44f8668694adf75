-- triggers_named: reads the store's clock, whether any completion trigger exists, and the triggers of these
-- names.
-- $1 now, or null for the server's clock   $2 names
-- plan: sorts: triggers, and there are few
SELECT clock.now, EXISTS (SELECT 1 FROM windlass.completion_triggers), s.name, s.version, s.last_job, s.is_marked, s.record, s.look_at
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS clock LEFT JOIN LATERAL (
    SELECT d.name, d.version, d.last_job, 
        -- The first mark of each trigger is enough: a trigger may have very many.
        coalesce((SELECT true FROM windlass.completion_trigger_marks m WHERE m.trigger = d.name LIMIT 1), false) AS is_marked,
        d.record, d.look_at
    FROM windlass.completion_triggers d WHERE d.name = ANY ($2::text[])
) AS s ON true ORDER BY s.name;
