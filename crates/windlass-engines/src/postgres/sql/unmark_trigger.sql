-- unmark_trigger: deletes the marks that the evaluation of a trigger saw; the trigger may be evaluated
-- again from then on.
-- $1 name   $2 ids of the marks   $3 time of the next evaluation at the earliest
WITH gone AS (DELETE FROM windlass.completion_trigger_marks WHERE trigger = $1::text AND id = ANY ($2::bigint[]))
UPDATE windlass.completion_triggers SET look_at = $3::timestamptz WHERE name = $1::text;
