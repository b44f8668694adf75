-- save_lease: stores a lease, new or not, as core decided in the same transaction.
-- ?1 duty   ?2 holder, or null   ?3 since   ?4 heartbeat   ?5 metadata   ?6 fence   ?7 term
-- ?8 expiry in microseconds   ?9 takeovers   ?10 whether the holder was asked to step down
INSERT INTO background_job_leases (
    job_name, held_by_worker_id, lease_acquired_at, heartbeat_at, metadata, fence, term, expiry_micros, takeovers, step_down
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT DO UPDATE SET held_by_worker_id = excluded.held_by_worker_id, lease_acquired_at = excluded.lease_acquired_at,
    heartbeat_at = excluded.heartbeat_at, metadata = excluded.metadata, fence = excluded.fence, term = excluded.term,
    expiry_micros = excluded.expiry_micros, takeovers = excluded.takeovers, step_down = excluded.step_down;
