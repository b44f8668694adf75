-- prune_rollups: deletes rollups past their retention, oldest first.
-- $1 now, or null for the server's clock   $2 retention in microseconds   $3 limit of rows
DELETE FROM windlass.job_rollups WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM windlass.job_rollups
    WHERE minute < floor((extract(epoch FROM coalesce($1::timestamptz, now())) * 1000000 - $2::bigint) / 60000000)::bigint
    ORDER BY minute, queue, job_type LIMIT $3::integer FOR UPDATE SKIP LOCKED
)) RETURNING 1;
