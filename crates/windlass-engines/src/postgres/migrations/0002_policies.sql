-- Breakers that processes share: what is known of each platform, as JSON. A write names the version that it read.
CREATE TABLE windlass.job_breakers (
    name text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    state text NOT NULL
);

-- Rate limits that processes share: when the next token of a key falls due if nothing is saved up, in microseconds since
-- 1970, and how many the last request got. A key that is not here has saved up all it may.
CREATE TABLE windlass.job_rate_limits (
    name text NOT NULL,
    key text NOT NULL,
    due bigint NOT NULL,
    granted integer NOT NULL,
    PRIMARY KEY (name, key)
) WITH (fillfactor = 50);
CREATE INDEX job_rate_limits_due ON windlass.job_rate_limits (due);
