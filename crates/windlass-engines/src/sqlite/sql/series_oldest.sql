-- series_oldest: the oldest job of a series that waits in line.
-- ?1 type   ?2 series
SELECT id FROM delayed_jobs
WHERE type = ?1 AND series = ?2 AND series IS NOT NULL AND gate GLOB 'series:*' ORDER BY id LIMIT 1;
