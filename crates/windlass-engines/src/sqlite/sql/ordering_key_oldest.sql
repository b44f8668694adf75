-- ordering_key_oldest: finds the oldest job of an ordering key that waits behind the gate of the key.
-- ?1 type   ?2 ordering key
SELECT id FROM delayed_jobs
WHERE type = ?1 AND ordering_key = ?2 AND ordering_key IS NOT NULL AND gate GLOB 'ordering_key:*' ORDER BY id LIMIT 1;
