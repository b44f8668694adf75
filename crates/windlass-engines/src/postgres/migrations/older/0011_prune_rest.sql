-- prune_rest: finished jobs past their retention that lie in no day of their own, and their attempts.
-- $1 now, or null for the server's clock   $2 kept for so many microseconds more   $3 at most so many
WITH gone AS (
    DELETE FROM windlass.job_history_rest WHERE ctid = ANY (ARRAY (
        SELECT ctid FROM windlass.job_history_rest
        WHERE keep_until <= coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond'
        ORDER BY keep_until LIMIT $3::integer
    )) RETURNING id
), attempts AS (
    DELETE FROM windlass.attempts WHERE job IN (SELECT id FROM gone)
)
SELECT id FROM gone;
