-- next_schedule: finds the next time at which a schedule that is not due yet must be checked.
-- ?1 now
SELECT min(look_at) FROM job_schedules WHERE look_at > ?1;
