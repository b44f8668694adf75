-- find_drain: one drain.
-- ?1 name
SELECT d.name, d.version, d.last_job, EXISTS (SELECT 1 FROM drain_marks m WHERE m.drain = d.name), d.record, d.look_at
FROM job_drains d WHERE d.name = ?1;
