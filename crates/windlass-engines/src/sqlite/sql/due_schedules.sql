-- due_schedules: schedules that somebody has to look at, longest due first, after the end of another page.
-- ?1 now   ?2 at most so many   ?3 when the last one of that page was to be looked at   ?4 its name
SELECT name, version, last_job, record, look_at FROM job_schedules WHERE look_at <= ?1 AND (look_at, name) > (?3, ?4)
ORDER BY look_at, name LIMIT ?2;
