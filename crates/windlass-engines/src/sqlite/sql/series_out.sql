-- series_out: the job of a series that is out.
-- ?1 type   ?2 series
SELECT id FROM delayed_jobs
WHERE type = ?1 AND series = ?2 AND series IS NOT NULL AND (gate IS NULL OR gate NOT GLOB 'series:*');
