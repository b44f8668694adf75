-- Leases: who does which duty for all, under which fence. A row stays when nobody holds the lease, so that no fence is given
-- twice.
--
-- The fence is part of a unique key, so that a new term changes a key and a heartbeat does not: whoever checks in a
-- transaction of its own that a term still holds, with FOR KEY SHARE, keeps the next term waiting until it has committed, and
-- heartbeats pass.
CREATE TABLE windlass.background_job_leases (
    job_name text COLLATE "C" PRIMARY KEY,
    held_by_worker_id uuid,
    lease_acquired_at timestamptz NOT NULL,
    heartbeat_at timestamptz NOT NULL,
    metadata json NOT NULL DEFAULT '{}',
    fence bigint NOT NULL,
    term uuid NOT NULL,
    expiry_micros bigint NOT NULL,
    takeovers bigint NOT NULL DEFAULT 0,
    step_down boolean NOT NULL DEFAULT false,
    UNIQUE (job_name, fence)
) WITH (fillfactor = 50);
