-- remove_triggers: deletes completion triggers with their marks. The transaction has locked them and
-- compared their versions.
-- $1 names
WITH gone AS (DELETE FROM windlass.completion_triggers WHERE name = ANY ($1::text[]))
DELETE FROM windlass.completion_trigger_marks WHERE trigger = ANY ($1::text[]);
