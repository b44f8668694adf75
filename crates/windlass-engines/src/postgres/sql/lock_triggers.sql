-- lock_triggers: locks triggers by name, and tells how they stand. Whoever has locked one is waited for.
-- $1 names
SELECT name, version, last_job FROM windlass.completion_triggers WHERE name = ANY ($1::text[]) ORDER BY name FOR UPDATE;
