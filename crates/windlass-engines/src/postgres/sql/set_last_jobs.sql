-- set_last_jobs: the last jobs that schedules have made, and what is kept of ticks that made none, of schedules that the transaction
-- has locked.
-- by position: $1 names   $2 jobs, or null if it is still the one it was   $3 records, or null if nothing is to be told
-- plan: walks job_schedules_pkey when seen empty: there is a limit to how many schedules there are
UPDATE windlass.job_schedules s SET last_job = coalesce(i.job, s.last_job), record = coalesce(i.record, s.record)
FROM unnest($1::text[], $2::bigint[], $3::text[]) AS i (name, job, record) WHERE s.name = i.name;
