-- past_retention: finished jobs that are no longer kept, oldest first.
-- ?1 now   ?2 at most so many
SELECT id FROM job_history WHERE keep_until <= ?1 ORDER BY keep_until LIMIT ?2;
