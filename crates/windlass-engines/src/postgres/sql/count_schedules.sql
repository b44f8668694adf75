-- count_schedules: counts all schedules.
-- plan: walks job_schedules_pkey: only storing a new schedule counts them, and there is a limit
SELECT count(*) FROM windlass.job_schedules;
