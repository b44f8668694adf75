-- save_trigger: stores a completion trigger. The transaction has compared its version.
-- ?1 name   ?2 version   ?3 kind of the watched group   ?4 its name   ?5 whether it waits for retries
-- ?6 its last job
-- ?7 record
INSERT INTO completion_triggers (name, version, kind, watched, wait_for_retries, last_job, record) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, kind = excluded.kind, watched = excluded.watched,
    wait_for_retries = excluded.wait_for_retries, last_job = excluded.last_job, record = excluded.record;
