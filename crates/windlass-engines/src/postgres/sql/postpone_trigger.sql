-- postpone_trigger: postpones the next check of a trigger after a failed one.
-- $1 name   $2 now, or null for the server's clock   $3 microseconds until then
UPDATE windlass.completion_triggers SET look_at = coalesce($2::timestamptz, clock_timestamp()) + $3::bigint * interval '1 microsecond'
WHERE name = $1::text;
