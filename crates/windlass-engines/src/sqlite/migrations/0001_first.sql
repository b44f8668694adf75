-- The schema of a file. Instants are microseconds since 1970 in UTC. Tokens, request ids and worker ids are
-- 16 bytes. Texts named spec, pause, options, progress, tags, record, state, ids, answers, metadata and
-- *error are JSON. JSON that another version wrote may have fields that this one does not know: they are
-- preserved when it is rewritten, except in the metadata of leases, whose holder writes it anew.

-- ---- Queues and job types -------------------------------------------------------------------------

-- Queues as they were declared. `shut` is 1 if the queue refuses new jobs.
CREATE TABLE queues (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    spec TEXT NOT NULL,
    pause TEXT,
    shut INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Job types as they were registered. A type belongs to one queue for good, so jobs name only their type.
CREATE TABLE job_types (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    queue INTEGER NOT NULL REFERENCES queues (id),
    spec TEXT NOT NULL
) STRICT;

-- ---- Jobs ------------------------------------------------------------------------------------------

-- The id of the next job, in one row. An id is never given twice, not even after its job is gone.
CREATE TABLE job_sequence (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    next INTEGER NOT NULL
) STRICT;
INSERT INTO job_sequence (one, next) VALUES (1, 1);

-- Jobs that have not ended. A running job has a token, a worker and no gate; a waiting job has neither
-- token nor worker. The token of the last settlement stays in `settled_by`, so that a repeat of it can be
-- answered.
--
-- `ordering_key`: jobs of one type and ordering key run one at a time. The job that is not behind the gate
-- of its ordering key is out, and only one may be.
-- `fairness_key`: among the due jobs of a queue and a priority, fairness keys take turns. A job without a
-- fairness key has null here. But if other jobs of its type and priority have one when it is enqueued, it
-- has the empty name, under which such jobs are found in one place. The name itself is among the options,
-- as an ordering key is.
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
    cancel_requested TEXT,
    ordering_key TEXT,
    fairness_key TEXT
) STRICT;
-- The order of claims. By type first: a claim requests some types only, and a million jobs that it does not
-- handle must cost it nothing.
CREATE INDEX delayed_jobs_ready ON delayed_jobs (type, priority, due, id) WHERE gate IS NULL AND worker IS NULL;
CREATE INDEX delayed_jobs_fairness_keys ON delayed_jobs (type, priority, fairness_key, due, id)
    WHERE fairness_key IS NOT NULL AND gate IS NULL AND worker IS NULL;
CREATE UNIQUE INDEX delayed_jobs_ordering_key_out ON delayed_jobs (type, ordering_key)
    WHERE ordering_key IS NOT NULL AND (gate IS NULL OR gate NOT GLOB 'ordering_key:*');
CREATE INDEX delayed_jobs_ordering_key_line ON delayed_jobs (type, ordering_key, id)
    WHERE ordering_key IS NOT NULL AND gate GLOB 'ordering_key:*';
CREATE INDEX delayed_jobs_parked ON delayed_jobs (gate, due, id, type) WHERE gate IS NOT NULL;
CREATE INDEX delayed_jobs_running ON delayed_jobs (worker) WHERE worker IS NOT NULL;
CREATE INDEX delayed_jobs_expiring ON delayed_jobs (expires_at)
    WHERE expires_at IS NOT NULL AND worker IS NULL AND attempts = 0;
CREATE INDEX delayed_jobs_key ON delayed_jobs (key) WHERE key IS NOT NULL;
CREATE INDEX delayed_jobs_correlation ON delayed_jobs (correlation) WHERE correlation IS NOT NULL;
-- Whether a group or type has unfinished work is found by these two, however many of its jobs are due in
-- the future or parked. The condition of the second is spelled so that a statement about one gate or one
-- ordering key does not use that index.
CREATE INDEX delayed_jobs_group ON delayed_jobs (job_group, gate, due) WHERE job_group IS NOT NULL;
CREATE INDEX delayed_jobs_parked_type ON delayed_jobs (type, gate, due) WHERE coalesce(gate, '') <> '';

-- Dead letters. From `ended_at` on: the attempt that ended the job.
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
-- attempt that ended the job.
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

-- The claim that ended a job of which nothing else is kept, so that a repeat of its end can be answered for
-- a while.
CREATE TABLE job_traces (
    job INTEGER PRIMARY KEY,
    settled_by BLOB NOT NULL,
    at INTEGER NOT NULL
) STRICT;

-- Attempts that did not end their job. The attempt that ended a job is in the job's own last row.
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

-- ---- Requests: keys, receipts and claim tokens ------------------------------------------------------

-- The job that holds each key, and until when if the key outlives the job.
CREATE TABLE job_keys (
    type INTEGER NOT NULL,
    key TEXT NOT NULL,
    job INTEGER NOT NULL,
    scope TEXT NOT NULL,
    until INTEGER,
    PRIMARY KEY (type, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_keys_until ON job_keys (until) WHERE until IS NOT NULL;

-- The answers to each enqueue request.
CREATE TABLE receipts (
    id INTEGER PRIMARY KEY,
    request BLOB NOT NULL UNIQUE,
    answers TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

-- Tokens of claim requests that were repeated: their first message, should it still arrive, claims nothing.
-- The ids follow the order in which the tokens were spent, so that the oldest are found first.
CREATE TABLE spent_tokens (
    id INTEGER PRIMARY KEY,
    token BLOB NOT NULL UNIQUE,
    at INTEGER NOT NULL
) STRICT;

-- ---- Workers and duties ----------------------------------------------------------------------------

-- Processes that claim jobs. A worker that was declared dead has a number in the order of deaths and a list
-- of the jobs that it held then. It never comes back to life: not while its row stays, and not under an id
-- that the store does not know.
-- `duties`: the duties it could do for all processes, as a JSON array. `slots`: how many jobs it can run at
-- once.
-- `clock_ahead`: by how much its clock was ahead of this process's clock at its last heartbeat.
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
    held TEXT,
    duties TEXT NOT NULL DEFAULT '[]',
    slots INTEGER NOT NULL DEFAULT 0,
    clock_ahead INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX workers_live ON workers (id) WHERE died IS NULL;
CREATE INDEX workers_died ON workers (died) WHERE died IS NOT NULL;

-- Duty leases: which worker does which duty for all, under which fence. A row stays when no worker holds the
-- lease, so that no fence is given twice.
CREATE TABLE background_job_leases (
    job_name TEXT PRIMARY KEY,
    held_by_worker_id BLOB,
    lease_acquired_at INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    fence INTEGER NOT NULL,
    term BLOB NOT NULL,
    expiry_micros INTEGER NOT NULL,
    takeovers INTEGER NOT NULL,
    step_down INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- ---- Breakers and rate limits ----------------------------------------------------------------------

-- Breakers that processes share: the state of each platform. A write names the version that it read.
CREATE TABLE job_breakers (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    state TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Rate limits that processes share: when the next token of a key falls due if none are saved. A key without
-- a row has saved its full burst.
CREATE TABLE job_rate_limits (
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    due INTEGER NOT NULL,
    PRIMARY KEY (name, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_rate_limits_due ON job_rate_limits (due);

-- ---- Schedules and completion triggers --------------------------------------------------------------

-- Schedules: the record of each, as core writes it, and when it has to be evaluated next. The version goes
-- up with each change, and a change names the version that it has read. The key of a job says which tick
-- enqueued it.
CREATE TABLE job_schedules (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    look_at INTEGER,
    last_job INTEGER,
    record TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX job_schedules_look_at ON job_schedules (look_at) WHERE look_at IS NOT NULL;

-- Completion triggers: the record of each, as core writes it, what it watches, and when it may be evaluated
-- again.
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

-- A mark says that a job which kept the group of a trigger unfinished does so no more.
CREATE TABLE completion_trigger_marks (trigger TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- ---- Counts and rollups ----------------------------------------------------------------------------

-- How many jobs of each type are in which state, and its events so far. `started_over`: without it, a job
-- that died three times would be counted as one death.
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
    cancelled INTEGER NOT NULL,
    started_over INTEGER NOT NULL DEFAULT 0
) STRICT;

-- How many waiting jobs without a gate fall due in which minute, so that ready and scheduled jobs can be
-- told apart without a scan. Past minutes are merged into one.
CREATE TABLE count_minutes (
    queue INTEGER NOT NULL,
    minute INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (queue, minute)
) STRICT, WITHOUT ROWID;

-- Rollups of each minute, queue and type. `waits` and `runs` are histograms, as core writes them. Not to be
-- confused with count_minutes, which says when waiting jobs fall due.
CREATE TABLE job_rollups (
    minute INTEGER NOT NULL,
    queue TEXT NOT NULL,
    job_type TEXT NOT NULL,
    enqueued INTEGER NOT NULL,
    started INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    retried INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    waits TEXT NOT NULL,
    runs TEXT NOT NULL,
    PRIMARY KEY (minute, queue, job_type)
) STRICT, WITHOUT ROWID;

-- Samples of workers, for the duty to add to the rollups.
CREATE TABLE rollup_samples (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    seen TEXT NOT NULL
) STRICT;

-- The watermark: up to which point the totals in `counts` are in the rollups, in one row.
CREATE TABLE rollup_watermark (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL,
    booked TEXT NOT NULL
) STRICT;
INSERT INTO rollup_watermark (one, version, booked) VALUES (1, 0, '');

-- ---- The spool -------------------------------------------------------------------------------------

-- Batches of jobs that move to another store: their request, since when, and which jobs, as a JSON list in
-- the order of the request. The jobs wait behind the gate that names the request.
CREATE TABLE spool_batches (
    request BLOB PRIMARY KEY,
    since INTEGER NOT NULL,
    ids TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX spool_batches_since ON spool_batches (since);
