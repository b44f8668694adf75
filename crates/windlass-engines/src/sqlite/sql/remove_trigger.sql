-- remove_trigger: a trigger is forgotten. The transaction has compared its version.
-- ?1 name
DELETE FROM completion_triggers WHERE name = ?1;
