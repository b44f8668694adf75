-- lock_triggers: locks triggers by name, and reads their versions and last jobs. Waits for a session that
-- has locked one of them.
-- $1 names
SELECT name, version, last_job FROM windlass.completion_triggers WHERE name = ANY ($1::text[]) ORDER BY name FOR UPDATE;
