-- count_schedules: how many there are.
SELECT count(*) FROM job_schedules;
