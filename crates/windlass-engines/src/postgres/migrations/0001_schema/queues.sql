-- For all files of this schema: tokens and worker ids are uuids. Columns of type text named spec, pause,
-- options, progress, tags, scope and *error hold JSON. Names are written out, so that a person who reads
-- these tables needs no second table to understand them.

-- A number that goes up with every change of a queue or a type. A process that caches queues and types
-- sends the number of its cache, and reads them again if the number has changed.
CREATE TABLE windlass.catalogue (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint NOT NULL
);
INSERT INTO windlass.catalogue (version) VALUES (1);

-- Queues. The columns beside `spec` repeat part of it for statements in SQL. `fairness_keys_since` says
-- since when the queue has jobs with fairness keys: claims take turns there and in no other queue.
CREATE TABLE windlass.queues (
    name text PRIMARY KEY,
    spec text NOT NULL,
    priority smallint NOT NULL,
    capacity bigint,
    pause text,
    shut boolean NOT NULL DEFAULT false,
    fairness_keys_since timestamptz
);

-- Job types. The columns beside `spec` repeat part of it.
CREATE TABLE windlass.job_types (
    name text PRIMARY KEY,
    queue text NOT NULL REFERENCES windlass.queues (name),
    spec text NOT NULL,
    priority smallint,
    max_attempts integer NOT NULL,
    retention_days integer NOT NULL,
    keep_result boolean NOT NULL
);
