-- leases: lists all leases, by the names of their duties.
-- ?1 limit
SELECT job_name, held_by_worker_id, lease_acquired_at, heartbeat_at, metadata, fence, term, expiry_micros, takeovers, step_down
FROM background_job_leases ORDER BY job_name LIMIT ?1;
