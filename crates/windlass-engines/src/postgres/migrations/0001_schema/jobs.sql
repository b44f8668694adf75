-- Jobs: those that have not ended, dead letters, the history, and attempts.

-- The id of a job is also its position among jobs of equal priority and due time, so a session takes one id
-- at a time.
CREATE SEQUENCE windlass.job_ids AS bigint;

-- Jobs that have not ended. A running job has locked_at, locked_by and token, and no gate; a waiting job
-- has none of the three. `settled_by` keeps the token of the last settlement, so that a repeat of it can be
-- answered.
--
-- `ordering_key` and `fairness_key` are in `options`, too; here they are for indexes. In a queue that has
-- fairness keys, a job without a fairness key has the empty one, which is a fairness key like any other. A
-- job that was enqueued before the queue had any has null, and claims find it among the first jobs.
CREATE TABLE windlass.delayed_jobs (
    id bigint NOT NULL,
    scheduled_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    locked_at timestamptz,
    expires_at timestamptz,
    locked_by uuid,
    token uuid,
    settled_by uuid,
    attempts integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL DEFAULT 5,
    failures integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    holds integer NOT NULL DEFAULT 0,
    priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 10),
    boosted boolean,
    started boolean NOT NULL DEFAULT false,
    queue text NOT NULL,
    job_type text NOT NULL,
    payload json NOT NULL,
    key text,
    ordering_key text,
    fairness_key text COLLATE "C",
    correlation text,
    job_group text,
    tags text,
    options text,
    progress text,
    last_error text,
    gate text,
    cancel_requested text,
    CONSTRAINT delayed_jobs_pkey PRIMARY KEY (id)
) WITH (
    -- A claim writes a new version of each row, a little longer, next to the old one: more than half of a
    -- page is left free for that. No index contains a column that a claim changes (locked_at, locked_by,
    -- token, attempts, boosted), so no index gets a new entry.
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);
-- The order of claims. Running jobs stay in it.
CREATE INDEX delayed_jobs_ready ON windlass.delayed_jobs (queue, priority, scheduled_at, id) WHERE gate IS NULL;
-- The same order within each fairness key, for queues in which claims take turns between fairness keys.
-- Running jobs stay in it, too.
CREATE INDEX delayed_jobs_fairness_keys ON windlass.delayed_jobs (queue, priority, fairness_key, scheduled_at, id)
    WHERE fairness_key IS NOT NULL AND gate IS NULL;
-- Jobs whose worker died are claimed alone, the most urgent first. When many workers die at once there are
-- many of these jobs, and without this index each such claim would sort all of them.
CREATE INDEX delayed_jobs_suspects ON windlass.delayed_jobs (queue, priority, scheduled_at, id) WHERE gate = 'suspect';
CREATE INDEX delayed_jobs_parked ON windlass.delayed_jobs (gate, scheduled_at, id) WHERE gate IS NOT NULL;
-- Gates that policies open: a statement that lists them must not scan all jobs that wait behind the gate of
-- their ordering key.
CREATE INDEX delayed_jobs_gates ON windlass.delayed_jobs (gate) WHERE gate IS NOT NULL AND gate NOT LIKE 'ordering_key:%';
-- Parked jobs of a queue, for completion triggers: whether a group has unfinished work is found by this
-- index and by that of groups, however many of its jobs are due in the future or parked by policies. A
-- statement has to write the condition in this form to get this index, so that a statement that reads one
-- gate does not take it for the index of gates.
CREATE INDEX delayed_jobs_parked_queue ON windlass.delayed_jobs (queue, gate COLLATE "C", scheduled_at)
    WHERE coalesce(gate, '') <> '';
CREATE INDEX delayed_jobs_group ON windlass.delayed_jobs (job_group, gate COLLATE "C", scheduled_at)
    WHERE job_group IS NOT NULL;
-- Of the jobs of an ordering key only one may be past the gate of the key. See ordering_keys.sql.
CREATE UNIQUE INDEX delayed_jobs_ordering_key_out ON windlass.delayed_jobs (job_type, ordering_key)
    WHERE ordering_key IS NOT NULL AND (gate IS NULL OR gate NOT LIKE 'ordering_key:%');
CREATE INDEX delayed_jobs_ordering_key_line ON windlass.delayed_jobs (job_type, ordering_key, id)
    WHERE ordering_key IS NOT NULL AND gate LIKE 'ordering_key:%';
-- Jobs that were asked to stop, for heartbeats.
CREATE INDEX delayed_jobs_stopping ON windlass.delayed_jobs (id) WHERE cancel_requested IS NOT NULL;
-- A job that was started once no longer expires. A job that runs for the first time is still in this index.
CREATE INDEX delayed_jobs_expiring ON windlass.delayed_jobs (expires_at) WHERE expires_at IS NOT NULL AND NOT started;
CREATE INDEX delayed_jobs_key ON windlass.delayed_jobs (key) WHERE key IS NOT NULL;
CREATE INDEX delayed_jobs_correlation ON windlass.delayed_jobs (correlation) WHERE correlation IS NOT NULL;

-- Dead letters. From `error` on: why the job died, and the attempt that ended it.
CREATE TABLE windlass.delayed_jobs_dlq (
    id bigint PRIMARY KEY,
    scheduled_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    settled_by uuid,
    attempts integer NOT NULL,
    max_attempts integer NOT NULL,
    failures integer NOT NULL,
    crashes integer NOT NULL,
    holds integer NOT NULL,
    priority smallint NOT NULL,
    queue text NOT NULL,
    job_type text NOT NULL,
    payload json NOT NULL,
    key text,
    correlation text,
    job_group text,
    tags text,
    options text,
    progress text,
    last_error text,
    error text NOT NULL,
    ended_at timestamptz NOT NULL,
    worker uuid,
    started_at timestamptz,
    ending text,
    attempt_error text,
    output text
);
CREATE INDEX delayed_jobs_dlq_queue ON windlass.delayed_jobs_dlq (queue, id);
CREATE INDEX delayed_jobs_dlq_key ON windlass.delayed_jobs_dlq (key) WHERE key IS NOT NULL;
CREATE INDEX delayed_jobs_dlq_correlation ON windlass.delayed_jobs_dlq (correlation) WHERE correlation IS NOT NULL;
CREATE INDEX delayed_jobs_dlq_group ON windlass.delayed_jobs_dlq (job_group) WHERE job_group IS NOT NULL;

-- Jobs that succeeded (state 1) or were cancelled (state 2), until `keep_until`. Partitioned by the day on
-- which they may be deleted, which follows from the retention of the type and the day of the end. A
-- partition whose day is over is dropped, not deleted row by row. A row whose day has no partition yet goes
-- to the default partition, so that midnight stops no worker.
CREATE TABLE windlass.job_history (
    id bigint NOT NULL,
    keep_until timestamptz NOT NULL,
    scheduled_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    ended_at timestamptz NOT NULL,
    started_at timestamptz,
    settled_by uuid,
    worker uuid,
    attempts integer NOT NULL,
    max_attempts integer NOT NULL,
    failures integer NOT NULL,
    crashes integer NOT NULL,
    holds integer NOT NULL,
    priority smallint NOT NULL,
    state smallint NOT NULL,
    queue text NOT NULL,
    job_type text NOT NULL,
    payload json NOT NULL,
    key text,
    correlation text,
    job_group text,
    tags text,
    options text,
    progress text,
    last_error text,
    result text,
    why text,
    ending text,
    attempt_error text,
    output text
) PARTITION BY RANGE (keep_until);
CREATE INDEX job_history_id ON windlass.job_history (id);
CREATE INDEX job_history_cancelled ON windlass.job_history (id) WHERE state = 2;
-- Jobs that may have rows in `attempts`, which are deleted with them: jobs that were retried, started over,
-- or cancelled between attempts.
CREATE INDEX job_history_tried ON windlass.job_history (id) WHERE attempts > 1 OR last_error IS NOT NULL OR state = 2;
CREATE INDEX job_history_key ON windlass.job_history (key) WHERE key IS NOT NULL;
CREATE INDEX job_history_correlation ON windlass.job_history (correlation) WHERE correlation IS NOT NULL;
CREATE INDEX job_history_group ON windlass.job_history (job_group) WHERE job_group IS NOT NULL;
CREATE TABLE windlass.job_history_rest PARTITION OF windlass.job_history DEFAULT;
CREATE INDEX job_history_rest_keep ON windlass.job_history_rest (keep_until);

-- Which claim ended jobs that have no history, so that a repeat of their settlement can be answered for a
-- while. One row for all jobs that were settled together: a row for each job would cost as much as a history.
--
-- This table, `claims` and `receipts` are pruned by age. A BRIN index does not serve that: the engine's
-- sessions disable bitmap scans, and a range of pages whose space was reused keeps its oldest time for ever,
-- so every prune scanned whole tables for the few old rows. Times arrive in order, so a new entry of a B-tree
-- goes to its end.
CREATE TABLE windlass.job_traces (
    settled_by uuid NOT NULL,
    at timestamptz NOT NULL,
    jobs bigint[] NOT NULL
);
-- Rarely read and written all the time: compression would cost more than the space.
ALTER TABLE windlass.job_traces ALTER COLUMN jobs SET STORAGE EXTERNAL;
CREATE INDEX job_traces_settled_by ON windlass.job_traces (settled_by);
CREATE INDEX job_traces_at ON windlass.job_traces (at);

-- Attempts that did not end their job. The attempt that ended a job is in the job's own last row.
CREATE TABLE windlass.attempts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job bigint NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    worker uuid NOT NULL,
    number integer NOT NULL,
    ending text NOT NULL,
    error text,
    output text
);
CREATE INDEX attempts_job ON windlass.attempts (job, id);
