-- count_schedules: how many there are.
SELECT count(*) FROM windlass.job_schedules;
