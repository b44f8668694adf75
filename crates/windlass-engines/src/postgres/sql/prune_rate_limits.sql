-- prune_rate_limits: deletes rate-limit keys that have saved their full burst.
-- $1 now, or null for the server's clock   $2 extra retention in microseconds   $3 limit
DELETE FROM windlass.job_rate_limits WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM windlass.job_rate_limits
    WHERE due <= round(extract(epoch FROM coalesce($1::timestamptz, now())) * 1000000)::bigint - $2::bigint
    ORDER BY due LIMIT $3::integer FOR UPDATE SKIP LOCKED
)) RETURNING 1;
