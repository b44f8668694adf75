-- find_schedule: one schedule.
-- ?1 name
SELECT name, version, last_job, record FROM job_schedules WHERE name = ?1;
