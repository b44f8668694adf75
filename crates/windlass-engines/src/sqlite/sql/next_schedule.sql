-- next_schedule: when somebody has to look at a schedule next that is not due yet.
-- ?1 now
SELECT min(look_at) FROM job_schedules WHERE look_at > ?1;
