-- prune_keys: deletes keys held for a period that is over, unless their job has not ended. Keys that
-- another session has locked are left for the next time.
-- $1 now, or null for the server's clock   $2 extra retention in microseconds   $3 limit
WITH stale AS MATERIALIZED (
    SELECT k.job_type, k.key FROM windlass.job_keys k
    WHERE k.until IS NOT NULL
        AND k.until <= coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond'
        AND NOT EXISTS (SELECT 1 FROM windlass.delayed_jobs j WHERE j.id = k.job)
    ORDER BY k.until LIMIT $3::integer
    FOR UPDATE SKIP LOCKED
)
DELETE FROM windlass.job_keys k USING stale s WHERE k.job_type = s.job_type AND k.key = s.key RETURNING 1;
