-- declare_queue: stores a new queue, or a new declaration of a known one; a pause stays, and a shut queue
-- stays shut.
-- ?1 name   ?2 spec
INSERT INTO queues (name, spec) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET spec = excluded.spec;
