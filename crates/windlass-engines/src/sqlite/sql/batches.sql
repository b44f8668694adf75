-- batches: lists staged batches, oldest first, after one batch.
-- ?1 when that batch was staged, or null   ?2 its request, or null   ?3 limit, or -1
SELECT request, since, ids FROM spool_batches
WHERE ?1 IS NULL OR (since, request) > (?1, ?2)
ORDER BY since, request LIMIT ?3;
