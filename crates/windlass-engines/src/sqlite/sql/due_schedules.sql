-- due_schedules: lists schedules that must be checked, longest due first, after the end of the previous
-- page.
-- ?1 now   ?2 limit   ?3 check time of the last schedule of the previous page   ?4 its name
SELECT name, version, last_job, record, look_at FROM job_schedules WHERE look_at <= ?1 AND (look_at, name) > (?3, ?4)
ORDER BY look_at, name LIMIT ?2;
