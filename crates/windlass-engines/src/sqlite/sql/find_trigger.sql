-- find_trigger: reads one completion trigger.
-- ?1 name
SELECT d.name, d.version, d.last_job, EXISTS (SELECT 1 FROM completion_trigger_marks m WHERE m.trigger = d.name), d.record, d.look_at
FROM completion_triggers d WHERE d.name = ?1;
