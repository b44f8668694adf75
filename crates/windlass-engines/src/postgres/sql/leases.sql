-- leases: reads the store's clock, and all leases by the names of their duties.
-- $1 now, or null for the server's clock   $2 limit
-- plan: sorts: leases, and there are few
SELECT coalesce($1::timestamptz, clock_timestamp()), l.job_name, l.held_by_worker_id, l.lease_acquired_at, l.heartbeat_at,
    l.metadata::text, l.fence, l.term, l.expiry_micros, l.takeovers, l.step_down
FROM (SELECT 1) AS one LEFT JOIN windlass.background_job_leases l ON true ORDER BY l.job_name LIMIT $2::integer;
