-- ordering_key_out: finds the job of an ordering key that is out.
-- ?1 type   ?2 ordering key
SELECT id FROM delayed_jobs
WHERE type = ?1 AND ordering_key = ?2 AND ordering_key IS NOT NULL AND (gate IS NULL OR gate NOT GLOB 'ordering_key:*');
