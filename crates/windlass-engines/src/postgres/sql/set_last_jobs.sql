-- set_last_jobs: stores the last jobs that schedules have enqueued, and the records of ticks that enqueued
-- none. The transaction has locked the schedules.
-- by position: $1 names   $2 jobs, or null to keep the last job   $3 records, or null to keep the record
-- plan: walks job_schedules_pkey when seen empty: the number of schedules has a limit
UPDATE windlass.job_schedules s SET last_job = coalesce(i.job, s.last_job), record = coalesce(i.record, s.record)
FROM unnest($1::text[], $2::bigint[], $3::text[]) AS i (name, job, record) WHERE s.name = i.name;
