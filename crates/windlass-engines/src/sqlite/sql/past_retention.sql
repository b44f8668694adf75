-- past_retention: lists finished jobs past their retention, oldest first.
-- ?1 now   ?2 limit
SELECT id FROM job_history WHERE keep_until <= ?1 ORDER BY keep_until LIMIT ?2;
