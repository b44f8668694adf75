-- series_out: the job of a series that is out.
-- $1 type   $2 series
SELECT id FROM windlass.delayed_jobs
WHERE job_type = $1::text AND series = $2::text AND (gate IS NULL OR gate NOT LIKE 'series:%');
