-- batches: jobs that leave together, oldest first, those after one.
-- ?1 when that one was staged, or nothing   ?2 its request, or nothing   ?3 at most so many, or -1
SELECT request, since, ids FROM spool_batches
WHERE ?1 IS NULL OR (since, request) > (?1, ?2)
ORDER BY since, request LIMIT ?3;
