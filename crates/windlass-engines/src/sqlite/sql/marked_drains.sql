-- marked_drains: drains with a mark, by name.
SELECT d.name, d.version, d.last_job, 1, d.record, d.look_at
FROM drain_marks m JOIN job_drains d ON d.name = m.drain ORDER BY d.name;
