-- find_schedule: reads one schedule.
-- ?1 name
SELECT name, version, last_job, record, look_at FROM job_schedules WHERE name = ?1;
