-- How many jobs a worker can run at once, and by how many microseconds its clock was ahead of ours at its last heartbeat.
ALTER TABLE workers ADD COLUMN slots INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN clock_ahead INTEGER;
