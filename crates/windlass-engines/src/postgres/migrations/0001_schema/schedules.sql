-- Schedules of recurring jobs.

-- Schedules: the state of each, in core's format, and when it has to be checked next. The version goes up
-- with each change, and a process that changes a schedule names the version that it has read. The key of a
-- job says which tick created it.
CREATE TABLE windlass.job_schedules (
    name text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    look_at timestamptz,
    last_job bigint,
    record text NOT NULL
);
CREATE INDEX job_schedules_look_at ON windlass.job_schedules (look_at) WHERE look_at IS NOT NULL;
