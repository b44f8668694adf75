-- never_claimed: lists the oldest waiting jobs that no worker ever claimed and that only a missing handler
-- may hold back, each with the size of its payload and whether it has a key.
-- ?1 types and ?2 jobs to leave out, as JSON lists of their numbers   ?3 limit   ?4 only lower ids
SELECT id, length(CAST(payload AS BLOB)), key IS NOT NULL FROM delayed_jobs
WHERE worker IS NULL AND attempts = 0 AND (gate IS NULL OR gate LIKE 'no-handler:%')
    AND id < ?4 AND type NOT IN (SELECT value FROM json_each(?1)) AND id NOT IN (SELECT value FROM json_each(?2))
ORDER BY id LIMIT ?3;
