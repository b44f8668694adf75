-- list_schedules: lists a page of schedules by name.
-- ?1 after this one   ?2 limit
SELECT name, version, last_job, record, look_at FROM job_schedules WHERE name > ?1 ORDER BY name LIMIT ?2;
