-- claim: give waiting jobs to a worker and count the attempts; never one that runs. All of a batch at once: one
-- statement for each job would cost a tenth of a drain.
-- ?1 ids, as a JSON array   ?2 worker   ?3 token   ?4 now   ?5 whether they came ahead of their turn
UPDATE delayed_jobs SET worker = ?2, token = ?3, since = ?4, boosted = ?5, gate = NULL, attempts = attempts + 1
WHERE id IN (SELECT value FROM json_each(?1)) AND worker IS NULL;
