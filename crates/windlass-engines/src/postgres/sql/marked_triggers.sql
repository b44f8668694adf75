-- marked_triggers: the store's now, whether there are triggers at all, and triggers that have a mark.
-- $1 now, or null for the server's clock
-- plan: sorts: triggers, of which there are few
SELECT clock.now, EXISTS (SELECT 1 FROM windlass.completion_triggers), s.name, s.version, s.last_job, s.is_marked, s.record, s.look_at
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS clock LEFT JOIN LATERAL (
    SELECT d.name, d.version, d.last_job, true AS is_marked, d.record, d.look_at
    FROM windlass.completion_triggers d
    -- Each apart, and only the first: there may be very many of one trigger.
    CROSS JOIN LATERAL (SELECT 1 FROM windlass.completion_trigger_marks m WHERE m.trigger = d.name LIMIT 1) AS mark
) AS s ON true ORDER BY s.name;
