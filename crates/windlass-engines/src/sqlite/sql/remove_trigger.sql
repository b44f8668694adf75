-- remove_trigger: deletes a completion trigger. The transaction has compared its version.
-- ?1 name
DELETE FROM completion_triggers WHERE name = ?1;
