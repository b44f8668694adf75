-- mark_trigger: marks a completion trigger, after a job that kept its group unfinished does so no more.
-- ?1 name
INSERT INTO completion_trigger_marks (trigger) VALUES (?1) ON CONFLICT DO NOTHING;
