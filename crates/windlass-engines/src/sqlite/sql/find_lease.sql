-- find_lease: reads the lease of one duty.
-- ?1 duty
SELECT job_name, held_by_worker_id, lease_acquired_at, heartbeat_at, metadata, fence, term, expiry_micros, takeovers, step_down
FROM background_job_leases WHERE job_name = ?1;
