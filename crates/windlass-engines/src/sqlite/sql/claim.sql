-- claim: give a waiting job to a worker and count the attempt; never one that runs.
-- ?1 id   ?2 worker   ?3 token   ?4 now   ?5 whether it came ahead of its turn
UPDATE delayed_jobs SET worker = ?2, token = ?3, since = ?4, boosted = ?5, gate = NULL, attempts = attempts + 1
WHERE id = ?1 AND worker IS NULL;
