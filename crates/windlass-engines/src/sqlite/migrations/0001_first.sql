-- The first schema. Instants are microseconds since 1970 in UTC; tokens and worker ids are 16 bytes; texts
-- named spec, pause, options, progress, tags and *error are JSON. A type belongs to one queue for good, so
-- jobs name only their type.

CREATE TABLE queues (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    spec TEXT NOT NULL,
    pause TEXT,
    shut INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE job_types (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    queue INTEGER NOT NULL REFERENCES queues (id),
    spec TEXT NOT NULL
) STRICT;

-- The number of the next job. A number is never given twice, not even after its job is gone.
CREATE TABLE job_sequence (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    next INTEGER NOT NULL
) STRICT;
INSERT INTO job_sequence (one, next) VALUES (1, 1);

-- Jobs that have not ended. One that runs has a token, a worker and no gate; one that waits has neither token
-- nor worker. The token of the last settlement stays, so that a repeat of it can be answered.
CREATE TABLE delayed_jobs (
    id INTEGER PRIMARY KEY,
    type INTEGER NOT NULL,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 10),
    payload TEXT NOT NULL,
    enqueued_at INTEGER NOT NULL,
    due INTEGER NOT NULL,
    expires_at INTEGER,
    key TEXT,
    correlation TEXT,
    job_group TEXT,
    tags TEXT,
    options TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    holds INTEGER NOT NULL DEFAULT 0,
    progress TEXT,
    last_error TEXT,
    settled_by BLOB,
    gate TEXT,
    token BLOB,
    worker BLOB,
    since INTEGER,
    boosted INTEGER,
    cancel_requested TEXT
) STRICT;
-- The order of claims. By type first: a claim asks for some types only, and a mountain of jobs that it does
-- not handle must cost it nothing.
CREATE INDEX delayed_jobs_ready ON delayed_jobs (type, priority, due, id) WHERE gate IS NULL AND worker IS NULL;
CREATE INDEX delayed_jobs_parked ON delayed_jobs (gate, due, id, type) WHERE gate IS NOT NULL;
CREATE INDEX delayed_jobs_running ON delayed_jobs (worker) WHERE worker IS NOT NULL;
CREATE INDEX delayed_jobs_expiring ON delayed_jobs (expires_at)
    WHERE expires_at IS NOT NULL AND worker IS NULL AND attempts = 0;
CREATE INDEX delayed_jobs_key ON delayed_jobs (key) WHERE key IS NOT NULL;
CREATE INDEX delayed_jobs_correlation ON delayed_jobs (correlation) WHERE correlation IS NOT NULL;
CREATE INDEX delayed_jobs_group ON delayed_jobs (job_group) WHERE job_group IS NOT NULL;

-- Jobs that were given up. From `ended_at` on: the attempt that ended it.
CREATE TABLE delayed_jobs_dlq (
    id INTEGER PRIMARY KEY,
    type INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    payload TEXT NOT NULL,
    enqueued_at INTEGER NOT NULL,
    due INTEGER NOT NULL,
    expires_at INTEGER,
    key TEXT,
    correlation TEXT,
    job_group TEXT,
    tags TEXT,
    options TEXT,
    attempts INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    holds INTEGER NOT NULL,
    progress TEXT,
    last_error TEXT,
    settled_by BLOB,
    error TEXT NOT NULL,
    ended_at INTEGER NOT NULL,
    worker BLOB,
    started_at INTEGER,
    ending TEXT,
    attempt_error TEXT,
    output TEXT
) STRICT;
CREATE INDEX delayed_jobs_dlq_key ON delayed_jobs_dlq (key) WHERE key IS NOT NULL;
CREATE INDEX delayed_jobs_dlq_correlation ON delayed_jobs_dlq (correlation) WHERE correlation IS NOT NULL;
CREATE INDEX delayed_jobs_dlq_group ON delayed_jobs_dlq (job_group) WHERE job_group IS NOT NULL;

-- Jobs that succeeded (state 1) or were cancelled (state 2), until `keep_until`. From `ended_at` on: the
-- attempt that ended it.
CREATE TABLE job_history (
    id INTEGER PRIMARY KEY,
    type INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    payload TEXT NOT NULL,
    enqueued_at INTEGER NOT NULL,
    due INTEGER NOT NULL,
    expires_at INTEGER,
    key TEXT,
    correlation TEXT,
    job_group TEXT,
    tags TEXT,
    options TEXT,
    attempts INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    holds INTEGER NOT NULL,
    progress TEXT,
    last_error TEXT,
    settled_by BLOB,
    state INTEGER NOT NULL,
    keep_until INTEGER NOT NULL,
    result TEXT,
    why TEXT,
    ended_at INTEGER NOT NULL,
    worker BLOB,
    started_at INTEGER,
    ending TEXT,
    attempt_error TEXT,
    output TEXT
) STRICT;
CREATE INDEX job_history_keep ON job_history (keep_until);
CREATE INDEX job_history_cancelled ON job_history (id) WHERE state = 2;
CREATE INDEX job_history_key ON job_history (key) WHERE key IS NOT NULL;
CREATE INDEX job_history_correlation ON job_history (correlation) WHERE correlation IS NOT NULL;
CREATE INDEX job_history_group ON job_history (job_group) WHERE job_group IS NOT NULL;

-- Which claim ended a job of which nothing else is kept, so that a repeat of its end can be answered for a while.
CREATE TABLE job_traces (
    job INTEGER PRIMARY KEY,
    settled_by BLOB NOT NULL,
    at INTEGER NOT NULL
) STRICT;

-- Attempts after which the job went on. The one that ended a job lives in the job's own last row.
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    worker BLOB NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    ending TEXT NOT NULL,
    error TEXT,
    output TEXT
) STRICT;
CREATE INDEX attempts_job ON attempts (job, id);

-- Who holds which key, for how long.
CREATE TABLE job_keys (
    type INTEGER NOT NULL,
    key TEXT NOT NULL,
    job INTEGER NOT NULL,
    scope TEXT NOT NULL,
    until INTEGER,
    PRIMARY KEY (type, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_keys_until ON job_keys (until) WHERE until IS NOT NULL;

-- What each enqueue request was answered.
CREATE TABLE receipts (
    id INTEGER PRIMARY KEY,
    request BLOB NOT NULL UNIQUE,
    answers TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

-- Processes that claim jobs. One that was declared dead has a place in the order of deaths and what it held
-- then. It never comes back to life: not while its row stays, and not as one that nobody knows any more.
CREATE TABLE workers (
    id BLOB PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    version TEXT NOT NULL,
    queues TEXT NOT NULL,
    types TEXT NOT NULL,
    lease INTEGER NOT NULL,
    since INTEGER NOT NULL,
    beats INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    died INTEGER,
    held TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX workers_live ON workers (id) WHERE died IS NULL;
CREATE INDEX workers_died ON workers (died) WHERE died IS NOT NULL;

-- How many jobs of each type are where, and what happened so far.
CREATE TABLE counts (
    type INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    parked INTEGER NOT NULL,
    running INTEGER NOT NULL,
    dead_letters INTEGER NOT NULL,
    enqueued INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    retried INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    cancelled INTEGER NOT NULL
) STRICT;

-- How many waiting jobs without a gate fall due in which minute, so that ready and scheduled can be told
-- apart without a scan. Past minutes are folded into one.
CREATE TABLE count_minutes (
    queue INTEGER NOT NULL,
    minute INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (queue, minute)
) STRICT, WITHOUT ROWID;
