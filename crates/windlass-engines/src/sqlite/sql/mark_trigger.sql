-- mark_trigger: something held a trigger and holds it no more.
-- ?1 name
INSERT INTO completion_trigger_marks (trigger) VALUES (?1) ON CONFLICT DO NOTHING;
