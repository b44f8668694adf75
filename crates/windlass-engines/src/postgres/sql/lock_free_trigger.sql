-- lock_free_trigger: locks a trigger that nobody else is at, and tells how it stands.
-- $1 name
SELECT version, look_at FROM windlass.completion_triggers WHERE name = $1::text FOR UPDATE SKIP LOCKED;
