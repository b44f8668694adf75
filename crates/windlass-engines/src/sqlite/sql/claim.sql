-- claim: gives waiting jobs to a worker and counts the attempts; never a running job. It takes a whole
-- batch at once: one statement for each job would cost a tenth of the time to work off a queue.
-- ?1 ids, as a JSON array   ?2 worker   ?3 token   ?4 now   ?5 whether they were boosted
UPDATE delayed_jobs SET worker = ?2, token = ?3, since = ?4, boosted = ?5, gate = NULL, attempts = attempts + 1
WHERE id IN (SELECT value FROM json_each(?1)) AND worker IS NULL;
