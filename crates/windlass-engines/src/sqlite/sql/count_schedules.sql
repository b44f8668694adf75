-- count_schedules: counts the schedules.
SELECT count(*) FROM job_schedules;
