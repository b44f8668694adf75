-- unmark_drain: a drain was looked at by a statement that saw these marks; it may be looked at again from then on.
-- $1 name   $2 numbers of the marks   $3 from when on
WITH gone AS (DELETE FROM windlass.drain_marks WHERE drain = $1::text AND id = ANY ($2::bigint[]))
UPDATE windlass.job_drains SET look_at = $3::timestamptz WHERE name = $1::text;
