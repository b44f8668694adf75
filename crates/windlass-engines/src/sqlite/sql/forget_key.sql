-- forget_key: deletes a key that no job holds any more.
-- ?1 type   ?2 the bytes of the key
DELETE FROM job_keys WHERE type = ?1 AND key = CAST(?2 AS TEXT);
