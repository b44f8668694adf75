-- Where a worker stands in the row of all, by which those that stand by for a duty are chosen; how many jobs it can run at once;
-- and by how many microseconds its clock was ahead of the server's at its last heartbeat.
ALTER TABLE windlass.workers ADD COLUMN place bigint NOT NULL DEFAULT 0;
ALTER TABLE windlass.workers ADD COLUMN slots bigint NOT NULL DEFAULT 0;
ALTER TABLE windlass.workers ADD COLUMN clock_ahead_micros bigint;
