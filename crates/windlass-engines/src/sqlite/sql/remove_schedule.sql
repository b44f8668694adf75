-- remove_schedule: forgets a schedule.
-- ?1 name
DELETE FROM job_schedules WHERE name = ?1;
