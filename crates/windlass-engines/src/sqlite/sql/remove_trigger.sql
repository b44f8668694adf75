-- remove_trigger: a drain is forgotten. The transaction has compared its version.
-- ?1 name
DELETE FROM completion_triggers WHERE name = ?1;
