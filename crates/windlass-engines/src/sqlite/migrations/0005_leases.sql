-- Leases: who does which duty for all, under which fence. A row stays when nobody holds the lease, so that no fence is given
-- twice.
CREATE TABLE background_job_leases (
    job_name TEXT PRIMARY KEY,
    held_by_worker_id BLOB,
    lease_acquired_at INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    fence INTEGER NOT NULL,
    term BLOB NOT NULL,
    expiry_micros INTEGER NOT NULL,
    takeovers INTEGER NOT NULL,
    step_down INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
