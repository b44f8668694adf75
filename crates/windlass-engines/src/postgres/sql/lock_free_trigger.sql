-- lock_free_trigger: locks a trigger that no other session has locked, and reads its version and check
-- time.
-- $1 name
SELECT version, look_at FROM windlass.completion_triggers WHERE name = $1::text FOR UPDATE SKIP LOCKED;
