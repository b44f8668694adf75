-- prune_rollups: minutes that are past their time, oldest first.
-- $1 now, or null for the server's clock   $2 kept for so many microseconds   $3 at most so many rows
DELETE FROM windlass.job_rollups WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM windlass.job_rollups
    WHERE minute < floor((extract(epoch FROM coalesce($1::timestamptz, now())) * 1000000 - $2::bigint) / 60000000)::bigint
    ORDER BY minute, queue, job_type LIMIT $3::integer FOR UPDATE SKIP LOCKED
)) RETURNING 1;
