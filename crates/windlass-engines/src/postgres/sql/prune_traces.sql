-- prune_traces: deletes traces that no worker will query any more.
-- $1 now, or null for the server's clock   $2 retention in microseconds   $3 limit
DELETE FROM windlass.job_traces WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM windlass.job_traces
    WHERE at <= coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond' LIMIT $3::integer
)) RETURNING 1;
