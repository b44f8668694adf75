-- save_schedule: stores a schedule. The transaction has compared its version.
-- ?1 name   ?2 version   ?3 time of the next check, or null for never   ?4 its last job   ?5 record
INSERT INTO job_schedules (name, version, look_at, last_job, record) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, look_at = excluded.look_at, last_job = excluded.last_job,
    record = excluded.record;
