-- mark_drain: something held a drain and holds it no more.
-- ?1 name
INSERT INTO drain_marks (drain) VALUES (?1) ON CONFLICT DO NOTHING;
