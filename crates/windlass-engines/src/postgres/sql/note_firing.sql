-- note_firing: stores that a completion trigger has fired. The transaction has locked it and compared its
-- version.
-- $1 name   $2 new version   $3 its job, or null if it was refused   $4 record
UPDATE windlass.completion_triggers SET version = $2::bigint, last_job = coalesce($3::bigint, last_job), record = $4::text
WHERE name = $1::text;
