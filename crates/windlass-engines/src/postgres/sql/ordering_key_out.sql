-- ordering_key_out: finds the job of an ordering key that is out.
-- $1 type   $2 ordering key
SELECT id FROM windlass.delayed_jobs
WHERE job_type = $1::text AND ordering_key = $2::text AND (gate IS NULL OR gate NOT LIKE 'ordering_key:%');
