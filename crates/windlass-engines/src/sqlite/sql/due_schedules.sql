-- due_schedules: schedules that somebody has to look at, longest due first.
-- ?1 now   ?2 at most so many
SELECT name, version, last_job, record FROM job_schedules WHERE look_at <= ?1 ORDER BY look_at, name LIMIT ?2;
