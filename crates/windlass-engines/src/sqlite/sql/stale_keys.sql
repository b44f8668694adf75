-- stale_keys: keys held for a period that is over, for the pruner to look at: their jobs may still be live.
-- ?1 now   ?2 at most so many
SELECT type, key, job, scope, until FROM job_keys WHERE until IS NOT NULL AND until <= ?1 ORDER BY until LIMIT ?2;
