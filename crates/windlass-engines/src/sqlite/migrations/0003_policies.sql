-- Breakers that processes share: what is known of each platform, as JSON. A write names the version that it read.
CREATE TABLE job_breakers (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    state TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Rate limits that processes share: when the next token of a key falls due if nothing is saved up. A key that is not
-- here has saved up all it may.
CREATE TABLE job_rate_limits (
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    due INTEGER NOT NULL,
    PRIMARY KEY (name, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_rate_limits_due ON job_rate_limits (due);
