-- prune_keys: delete keys held for a period that is over, unless their job has not ended. Those of live jobs are
-- passed over here, not by the caller: else many of them would hide the others.
-- ?1 now   ?2 at most so many
DELETE FROM job_keys WHERE (type, key) IN (
    SELECT k.type, k.key FROM job_keys k
    WHERE k.until IS NOT NULL AND k.until <= ?1 AND NOT EXISTS (SELECT 1 FROM delayed_jobs j WHERE j.id = k.job)
    ORDER BY k.until LIMIT ?2);
