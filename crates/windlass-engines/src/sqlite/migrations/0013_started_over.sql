-- How often a dead letter was started over: without it, a job that died three times would be counted as one death.
ALTER TABLE counts ADD COLUMN started_over INTEGER NOT NULL DEFAULT 0;
