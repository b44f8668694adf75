-- end_worker: a worker is dead or retired, for ever.
-- ?1 worker   ?2 dead or retired
UPDATE workers SET ended = ?2 WHERE id = ?1 AND ended IS NULL;
