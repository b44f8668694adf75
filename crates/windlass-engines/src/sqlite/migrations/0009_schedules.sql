-- Schedules: how each stands, as core writes it, and when somebody has to look at it. The version goes up with each change, and
-- whoever changes a schedule names the one it has read. Which job a tick has made is told by the job's key.
CREATE TABLE job_schedules (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    look_at INTEGER,
    last_job INTEGER,
    record TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX job_schedules_look_at ON job_schedules (look_at) WHERE look_at IS NOT NULL;
