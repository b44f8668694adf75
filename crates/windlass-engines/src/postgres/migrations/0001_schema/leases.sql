-- Leases and locks of duties.

-- Duty leases: which worker does which duty for all, under which fence. A row stays when no worker holds the
-- lease, so that no fence is given twice.
--
-- The fence is part of a unique key, so that a new term changes a key and a heartbeat does not. A transaction
-- that checks with FOR KEY SHARE that a term still holds keeps the next term waiting until it has committed,
-- while heartbeats pass.
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

-- The worker that took the advisory lock of each duty, noted by the session that took it, with its process
-- id on the server. The lock itself is the server's: a note means nothing once another session, or none,
-- has the lock.
CREATE TABLE windlass.duty_locks (
    duty text COLLATE "C" PRIMARY KEY,
    worker uuid NOT NULL,
    session integer NOT NULL,
    since timestamptz NOT NULL
) WITH (fillfactor = 50);
