-- declare_types: registers or changes types; each stays in its queue.
-- by position: $1 names   $2 queues   $3 specs   $4 priorities, or null   $5 maximum attempts
-- $6 retention in days
-- $7 whether results are kept
INSERT INTO windlass.job_types (name, queue, spec, priority, max_attempts, retention_days, keep_result)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::smallint[], $5::integer[], $6::integer[], $7::boolean[])
ON CONFLICT (name) DO UPDATE SET spec = excluded.spec, priority = excluded.priority,
    max_attempts = excluded.max_attempts, retention_days = excluded.retention_days, keep_result = excluded.keep_result;
