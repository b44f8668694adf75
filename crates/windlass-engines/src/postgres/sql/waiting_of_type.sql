-- waiting_of_type: lists ready and scheduled jobs of a type.
-- $1 queue   $2 type   $3 limit
SELECT id FROM windlass.delayed_jobs
WHERE locked_at IS NULL AND gate IS NULL AND queue = $1::text AND job_type = $2::text LIMIT $3::integer;
