-- Policies that processes share.

-- Breakers: the state of each platform, as JSON. A write names the version that it has read.
CREATE TABLE windlass.job_breakers (
    name text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    state text NOT NULL
);

-- Rate limits: when the next token of a key falls due if none are saved, in microseconds since 1970, and
-- how many tokens the last request got. A key without a row has saved its full burst.
CREATE TABLE windlass.job_rate_limits (
    name text NOT NULL,
    key text NOT NULL,
    due bigint NOT NULL,
    granted integer NOT NULL,
    PRIMARY KEY (name, key)
) WITH (fillfactor = 50);
CREATE INDEX job_rate_limits_due ON windlass.job_rate_limits (due);
