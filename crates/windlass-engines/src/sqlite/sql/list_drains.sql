-- list_drains: a page of drains by name.
-- ?1 after this one   ?2 at most so many
SELECT d.name, d.version, d.last_job, EXISTS (SELECT 1 FROM drain_marks m WHERE m.drain = d.name), d.record, d.look_at
FROM job_drains d WHERE d.name > ?1 ORDER BY d.name LIMIT ?2;
