-- declare_type: stores a new type, or a new declaration of a known one; it never moves to another queue.
-- ?1 name   ?2 queue number   ?3 spec
INSERT INTO job_types (name, queue, spec) VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET spec = excluded.spec WHERE queue = excluded.queue;
