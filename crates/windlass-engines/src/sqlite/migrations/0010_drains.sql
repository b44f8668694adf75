-- CompletionTriggers: how each stands, as core writes it, what it watches, and when it may be looked at again. A mark says that something
-- held a drain and holds it no more.
CREATE TABLE completion_triggers (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    kind TEXT NOT NULL,
    watched TEXT NOT NULL,
    wait_for_retries INTEGER NOT NULL,
    look_at INTEGER,
    last_job INTEGER,
    record TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE completion_trigger_marks (trigger TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- Whether anything of a group is left is found by these, however much of it lies in the future or is parked. The second is for those
-- who say just that: who looks for one gate, or one ordering key, must not take it for an index of those.
DROP INDEX delayed_jobs_group;
CREATE INDEX delayed_jobs_group ON delayed_jobs (job_group, gate, due) WHERE job_group IS NOT NULL;
CREATE INDEX delayed_jobs_parked_type ON delayed_jobs (type, gate, due) WHERE coalesce(gate, '') <> '';
