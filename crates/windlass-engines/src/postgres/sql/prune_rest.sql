-- prune_rest: deletes finished jobs past their retention that lie in no partition of a day, and their
-- attempts.
-- $1 now, or null for the server's clock   $2 extra retention in microseconds   $3 limit
WITH gone AS (
    DELETE FROM windlass.job_history_rest WHERE ctid = ANY (ARRAY (
        SELECT ctid FROM windlass.job_history_rest
        WHERE keep_until <= coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond'
        ORDER BY keep_until LIMIT $3::integer
    )) RETURNING id
), attempts AS (
    DELETE FROM windlass.attempts WHERE job = ANY (ARRAY (SELECT id FROM gone))
)
SELECT id FROM gone;
