-- marked_triggers: lists the completion triggers with a mark, by name.
SELECT d.name, d.version, d.last_job, 1, d.record, d.look_at
FROM completion_trigger_marks m JOIN completion_triggers d ON d.name = m.trigger ORDER BY d.name;
