-- stale_keys: lists keys held for a period that is over, unless their job has not ended. Keys of live jobs
-- are skipped here, not by the caller: otherwise many of them would hide the others. As bytes, since text
-- may be damaged.
-- ?1 now   ?2 limit
SELECT k.type, CAST(k.key AS BLOB) FROM job_keys k
WHERE k.until IS NOT NULL AND k.until <= ?1 AND NOT EXISTS (SELECT 1 FROM delayed_jobs j WHERE j.id = k.job)
ORDER BY k.until LIMIT ?2;
