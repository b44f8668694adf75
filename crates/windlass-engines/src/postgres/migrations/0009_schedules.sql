-- Schedules: how each stands, as core writes it, and when somebody has to look at it. The version goes up with each change, and
-- whoever changes a schedule names the one it has read. Which job a tick has made is told by the job's key.
CREATE TABLE windlass.job_schedules (
    name text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    look_at timestamptz,
    last_job bigint,
    record text NOT NULL
);

CREATE INDEX job_schedules_look_at ON windlass.job_schedules (look_at) WHERE look_at IS NOT NULL;
