-- unmark_trigger: a trigger was looked at by a statement that saw these marks; it may be looked at again from then on.
-- $1 name   $2 numbers of the marks   $3 from when on
WITH gone AS (DELETE FROM windlass.completion_trigger_marks WHERE trigger = $1::text AND id = ANY ($2::bigint[]))
UPDATE windlass.completion_triggers SET look_at = $3::timestamptz WHERE name = $1::text;
