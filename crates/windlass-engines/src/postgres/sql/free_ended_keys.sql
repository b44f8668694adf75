-- free_ended_keys: frees the keys of jobs that ended in a caller's own transaction, unless a period holds
-- them longer. Keys that another session has locked are left for the next time.
-- $1 now, or null for the server's clock   $2 limit
-- plan: walks ended_keys_pkey: it stops at its limit, and deletes the rows it has read
WITH noted AS MATERIALIZED (
    SELECT job, job_type, key FROM windlass.ended_keys ORDER BY job LIMIT $2::integer FOR UPDATE SKIP LOCKED
), locked AS MATERIALIZED (
    SELECT k.job, k.until FROM noted n
    JOIN windlass.job_keys k ON k.job_type = n.job_type AND k.key = n.key AND k.job = n.job
    FOR UPDATE OF k SKIP LOCKED
), freed AS (
    DELETE FROM windlass.job_keys k USING noted n, locked l
    WHERE k.job_type = n.job_type AND k.key = n.key AND k.job = n.job AND l.job = n.job
        AND (l.until IS NULL OR l.until <= coalesce($1::timestamptz, now()))
)
DELETE FROM windlass.ended_keys e USING noted n
WHERE e.job = n.job AND (
    EXISTS (SELECT 1 FROM locked l WHERE l.job = n.job)
    OR NOT EXISTS (
        SELECT 1 FROM windlass.job_keys k WHERE k.job_type = n.job_type AND k.key = n.key AND k.job = n.job
    )
)
RETURNING e.job;
