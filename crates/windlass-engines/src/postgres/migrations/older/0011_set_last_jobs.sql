-- set_last_jobs: the last jobs that schedules have made, which the transaction has locked.
-- by position: $1 names   $2 jobs
UPDATE windlass.job_schedules s SET last_job = i.job
FROM unnest($1::text[], $2::bigint[]) AS i (name, job) WHERE s.name = i.name;
