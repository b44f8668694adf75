-- remove_schedule: deletes a schedule.
-- ?1 name
DELETE FROM job_schedules WHERE name = ?1;
