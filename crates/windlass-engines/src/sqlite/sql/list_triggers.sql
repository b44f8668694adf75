-- list_triggers: lists a page of completion triggers by name.
-- ?1 after this one   ?2 limit
SELECT d.name, d.version, d.last_job, EXISTS (SELECT 1 FROM completion_trigger_marks m WHERE m.trigger = d.name), d.record, d.look_at
FROM completion_triggers d WHERE d.name > ?1 ORDER BY d.name LIMIT ?2;
