-- The first schema. Tokens and worker ids are uuids; texts named spec, pause, options, progress, tags, scope
-- and *error are JSON. Names are written out: whoever looks at these tables should need no second one to read them.

-- Goes up with every change of a queue or a type. Whoever acts on what it remembers of them names the number it
-- remembers, and reads again if it is no longer the one.
CREATE TABLE windlass.catalogue (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint NOT NULL
);
INSERT INTO windlass.catalogue (version) VALUES (1);

-- What stands beside `spec` is in it too, for those who read with SQL.
CREATE TABLE windlass.queues (
    name text PRIMARY KEY,
    spec text NOT NULL,
    priority smallint NOT NULL,
    capacity bigint,
    pause text,
    shut boolean NOT NULL DEFAULT false
);

CREATE TABLE windlass.job_types (
    name text PRIMARY KEY,
    queue text NOT NULL REFERENCES windlass.queues (name),
    spec text NOT NULL,
    priority smallint,
    max_attempts integer NOT NULL,
    retention_days integer NOT NULL,
    keep_result boolean NOT NULL
);

-- A job's number is also its place among equals, so a session takes one number at a time.
CREATE SEQUENCE windlass.job_ids AS bigint;

-- Jobs that have not ended. One that runs has locked_at, locked_by and token, and no gate; one that waits has none
-- of the three. The token of the last settlement stays, so that a repeat of it can be answered.
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
    -- A claim writes each row anew, a little longer, beside the old one: more than half of a page is left for that. No index
    -- goes by a column that a claim changes (locked_at, locked_by, token, attempts, boosted), so none has to learn of it.
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);
-- The order of claims. Running jobs stay in it.
CREATE INDEX delayed_jobs_ready ON windlass.delayed_jobs (queue, priority, scheduled_at, id) WHERE gate IS NULL;
CREATE INDEX delayed_jobs_parked ON windlass.delayed_jobs (gate, scheduled_at, id) WHERE gate IS NOT NULL;
-- What was asked to stop, for heartbeats.
CREATE INDEX delayed_jobs_stopping ON windlass.delayed_jobs (id) WHERE cancel_requested IS NOT NULL;
-- What was started once no longer expires. One that runs for the first time is still in it.
CREATE INDEX delayed_jobs_expiring ON windlass.delayed_jobs (expires_at) WHERE expires_at IS NOT NULL AND NOT started;
CREATE INDEX delayed_jobs_key ON windlass.delayed_jobs (key) WHERE key IS NOT NULL;
CREATE INDEX delayed_jobs_correlation ON windlass.delayed_jobs (correlation) WHERE correlation IS NOT NULL;
CREATE INDEX delayed_jobs_group ON windlass.delayed_jobs (job_group) WHERE job_group IS NOT NULL;

-- Jobs that were given up. From `error` on: why, and the attempt that ended it.
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

-- Jobs that succeeded (state 1) or were cancelled (state 2), until `keep_until`. Split by the day on which they may
-- go: what a type's retention and the day of its end give together. A day that is over is dropped, not deleted.
-- What lies in no day that was made yet lies in the default part, so that midnight stops nobody.
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
-- Those that may have attempts of their own, which go with them: tried again, started over, or cancelled between two tries.
CREATE INDEX job_history_tried ON windlass.job_history (id) WHERE attempts > 1 OR last_error IS NOT NULL OR state = 2;
CREATE INDEX job_history_key ON windlass.job_history (key) WHERE key IS NOT NULL;
CREATE INDEX job_history_correlation ON windlass.job_history (correlation) WHERE correlation IS NOT NULL;
CREATE INDEX job_history_group ON windlass.job_history (job_group) WHERE job_group IS NOT NULL;
CREATE TABLE windlass.job_history_rest PARTITION OF windlass.job_history DEFAULT;
CREATE INDEX job_history_rest_keep ON windlass.job_history_rest (keep_until);

-- Which claim ended jobs of which nothing else is kept, so that a repeat of their end can be answered for a while. One row
-- for all that were settled together: as many rows as jobs would cost as much as a history.
CREATE TABLE windlass.job_traces (
    settled_by uuid NOT NULL,
    at timestamptz NOT NULL,
    jobs bigint[] NOT NULL
);
-- They are read rarely and written all the time: to compress them costs more than the space.
ALTER TABLE windlass.job_traces ALTER COLUMN jobs SET STORAGE EXTERNAL;
CREATE INDEX job_traces_settled_by ON windlass.job_traces (settled_by);
CREATE INDEX job_traces_at ON windlass.job_traces USING brin (at) WITH (pages_per_range = 16, autosummarize = on);

-- Attempts after which the job went on. The one that ended a job lives in the job's own last row.
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

-- Who holds which key, for how long. A row without a job is one that somebody is about to take.
CREATE TABLE windlass.job_keys (
    job_type text NOT NULL,
    key text NOT NULL,
    job bigint,
    scope text,
    until timestamptz,
    PRIMARY KEY (job_type, key)
);
CREATE INDEX job_keys_until ON windlass.job_keys (until) WHERE until IS NOT NULL;

-- What each enqueue request was answered: the numbers of its jobs, and every answer in full if not all were new.
CREATE TABLE windlass.receipts (
    request uuid PRIMARY KEY,
    at timestamptz NOT NULL,
    ids bigint[],
    answers text
);
CREATE INDEX receipts_at ON windlass.receipts USING brin (at) WITH (pages_per_range = 16, autosummarize = on);

-- Each claim that brought something: whose it is, its jobs and how many of them it holds. Once it holds none, it forgets
-- them. And each that was asked about because its answer got lost: what was asked about brings nothing any more, however
-- late its statement comes.
CREATE TABLE windlass.claims (
    token uuid PRIMARY KEY,
    at timestamptz NOT NULL,
    worker uuid,
    held integer NOT NULL DEFAULT 0,
    claim_tombstones boolean NOT NULL DEFAULT false,
    jobs bigint[]
);
-- They are read rarely and written all the time: to compress them costs more than the space.
ALTER TABLE windlass.claims ALTER COLUMN jobs SET STORAGE EXTERNAL;
CREATE INDEX claims_worker ON windlass.claims (worker) WHERE jobs IS NOT NULL;
CREATE INDEX claims_at ON windlass.claims USING brin (at) WITH (pages_per_range = 16, autosummarize = on);

-- How many jobs of a claim have left it, for maintenance to fold into claims. Only ever added to: two who end jobs of one claim
-- at once would wait for each other, and for whoever ends one in a long transaction of their own.
CREATE TABLE windlass.claim_ends (
    token uuid NOT NULL,
    jobs integer NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- What runs, and who runs it. A claim may name jobs that have left it since; those that it holds bear its token.
CREATE VIEW windlass.running AS
    SELECT j.id, c.worker, c.token FROM windlass.claims c
    CROSS JOIN LATERAL unnest(c.jobs) AS named (id)
    CROSS JOIN LATERAL (
        -- Apart, so that each is found by its number, also by a plan that was made while nothing was there.
        SELECT j.id FROM windlass.delayed_jobs j
        WHERE j.id = named.id AND j.token = c.token AND j.locked_by = c.worker OFFSET 0
    ) AS j
    WHERE c.jobs IS NOT NULL;

-- Processes that claim jobs. One that was declared dead has a place in the order of deaths and what it held then.
-- It never comes back to life: not while its row stays, and not as one that nobody knows any more.
CREATE SEQUENCE windlass.deaths AS bigint;
CREATE TABLE windlass.workers (
    id uuid PRIMARY KEY,
    since timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    beats bigint NOT NULL,
    lease_micros bigint NOT NULL,
    died bigint,
    pid bigint NOT NULL,
    host text NOT NULL,
    version text NOT NULL,
    queues text[] NOT NULL,
    types text[] NOT NULL,
    held bigint[]
) WITH (fillfactor = 50);
CREATE INDEX workers_died ON windlass.workers (died) WHERE died IS NOT NULL;

-- Who waits for jobs of which queue and types and is to be woken, by the channel it listens on. Lost in a crash, and harmless so.
CREATE UNLOGGED TABLE windlass.waiting (
    queue text NOT NULL,
    channel text NOT NULL,
    since timestamptz NOT NULL,
    types text[] NOT NULL,
    PRIMARY KEY (queue, channel)
) WITH (fillfactor = 50);

-- Jobs that were put back behind what claims have read already, so that they look there again. Kept for a minute.
CREATE TABLE windlass.requeued_jobs (
    at timestamptz NOT NULL,
    scheduled_at timestamptz NOT NULL,
    priority smallint NOT NULL,
    queue text NOT NULL
);
CREATE INDEX requeued_jobs_at ON windlass.requeued_jobs (at);

-- How many jobs of each type are where, and what happened so far; to which the changes not yet folded are added.
CREATE TABLE windlass.counts (
    job_type text PRIMARY KEY,
    queue text NOT NULL,
    waiting bigint NOT NULL,
    parked bigint NOT NULL,
    running bigint NOT NULL,
    dead_letters bigint NOT NULL,
    enqueued bigint NOT NULL,
    succeeded bigint NOT NULL,
    retried bigint NOT NULL,
    dead bigint NOT NULL,
    cancelled bigint NOT NULL
) WITH (fillfactor = 50);

-- How many waiting jobs without a gate fall due in which minute, so that ready and scheduled can be told apart
-- without a scan. Past minutes are folded into one.
CREATE TABLE windlass.count_minutes (
    queue text NOT NULL,
    minute bigint NOT NULL,
    n bigint NOT NULL,
    PRIMARY KEY (queue, minute)
) WITH (fillfactor = 50);

-- What each statement changed, for maintenance to fold into counts and count_minutes. Only ever added to: a row of counts
-- that every statement changes would be held by any caller's open transaction. `quiet` says that nobody needs waking.
CREATE TABLE windlass.count_deltas (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    minute bigint,
    waiting integer NOT NULL DEFAULT 0,
    parked integer NOT NULL DEFAULT 0,
    running integer NOT NULL DEFAULT 0,
    dead_letters integer NOT NULL DEFAULT 0,
    enqueued integer NOT NULL DEFAULT 0,
    succeeded integer NOT NULL DEFAULT 0,
    retried integer NOT NULL DEFAULT 0,
    dead integer NOT NULL DEFAULT 0,
    cancelled integer NOT NULL DEFAULT 0,
    quiet boolean NOT NULL DEFAULT false,
    job_type text NOT NULL,
    queue text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Wakes one of those who wait for a queue in which something may be claimable now. At commit: a worker may go to
-- sleep while the caller's transaction is still open. As the owner, since the caller may have no right to see who waits.
CREATE FUNCTION windlass.wake() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $wake$
DECLARE
    chosen text;
BEGIN
    SELECT channel INTO chosen FROM windlass.waiting
    WHERE queue = NEW.queue AND NEW.job_type = ANY (types) ORDER BY random() LIMIT 1;
    IF FOUND THEN
        PERFORM pg_notify(chosen, NEW.queue);
    END IF;
    RETURN NULL;
END
$wake$;
CREATE CONSTRAINT TRIGGER count_deltas_wake AFTER INSERT ON windlass.count_deltas
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.waiting > 0 AND NOT NEW.quiet)
    EXECUTE FUNCTION windlass.wake();

-- Makes the days of the history that will be needed within three days; for types with a retention of more than a hundred
-- days whole months. What came before its day was made lies in the default part, which stays small: to add a day is to
-- look through it under lock. Runs as the owner, so that whoever does maintenance needs no right to create tables; waits for
-- nobody.
CREATE FUNCTION windlass.create_partitions(today timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $create_partitions$
DECLARE
    needed record;
    day_part text;
    month_part text;
    part text;
    starts timestamptz;
    ends timestamptz;
    made integer := 0;
BEGIN
    FOR needed IN
        SELECT day, bool_or(far) AS far FROM (
            SELECT (today AT TIME ZONE 'UTC')::date + t.retention_days + ahead AS day, t.retention_days > 100 AS far
            FROM windlass.job_types t, generate_series(0, 3) AS ahead
            WHERE t.retention_days > 0
        ) AS days GROUP BY day ORDER BY day
    LOOP
        day_part := 'job_history_' || to_char(needed.day, 'YYYYMMDD');
        month_part := 'job_history_' || to_char(needed.day, 'YYYYMM');
        CONTINUE WHEN to_regclass('windlass.' || day_part) IS NOT NULL OR to_regclass('windlass.' || month_part) IS NOT NULL;
        -- A month of which there are days already is made of days.
        IF needed.far AND NOT EXISTS (
            SELECT 1 FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = 'windlass.job_history'::regclass AND c.relname LIKE month_part || '__'
        ) THEN
            part := month_part;
            starts := date_trunc('month', needed.day::timestamp) AT TIME ZONE 'UTC';
            ends := (date_trunc('month', needed.day::timestamp) + interval '1 month') AT TIME ZONE 'UTC';
        ELSE
            part := day_part;
            starts := needed.day::timestamp AT TIME ZONE 'UTC';
            ends := (needed.day + 1)::timestamp AT TIME ZONE 'UTC';
        END IF;
        CONTINUE WHEN EXISTS (
            SELECT 1 FROM windlass.job_history_rest WHERE keep_until >= starts AND keep_until < ends
        );
        BEGIN
            EXECUTE format('CREATE TABLE windlass.%I (LIKE windlass.job_history INCLUDING DEFAULTS)', part);
            EXECUTE format(
                'ALTER TABLE windlass.job_history ATTACH PARTITION windlass.%I FOR VALUES FROM (%L) TO (%L)',
                part, starts, ends
            );
            made := made + 1;
        EXCEPTION WHEN lock_not_available OR duplicate_table OR unique_violation OR check_violation THEN
            -- Somebody is in the way, or makes the same day at this moment. There are days left to try again.
            NULL;
        END;
    END LOOP;
    RETURN made;
END
$create_partitions$;

-- Drops the oldest day (or month) of the history that is over, with the attempts of its jobs. Those are many, so they go in
-- parts, and the day with the last part; the lock that dropping takes is held for nothing else. Tells about how many jobs
-- went, and whether there is more to do.
CREATE FUNCTION windlass.drop_partitions(present timestamptz, OUT dropped bigint, OUT more boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $drop_partitions$
DECLARE
    attempts_max constant integer := 50000;
    part record;
    gone bigint;
BEGIN
    dropped := 0;
    more := false;
    SELECT c.relname, c.reltuples, count(*) OVER () > 1 AS is_followed INTO part FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'windlass.job_history'::regclass AND c.relname ~ '^job_history_\d{6}(\d\d)?$'
        AND CASE WHEN c.relname ~ '\d{8}$' THEN to_date(right(c.relname, 8), 'YYYYMMDD') + 1
            ELSE (to_date(right(c.relname, 6), 'YYYYMM') + interval '1 month')::date END <= (present AT TIME ZONE 'UTC')::date
    ORDER BY c.relname LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    EXECUTE format(
        'DELETE FROM windlass.attempts WHERE id IN (
            SELECT a.id FROM windlass.%I h JOIN windlass.attempts a ON a.job = h.id
            WHERE h.attempts > 1 OR h.last_error IS NOT NULL OR h.state = 2 LIMIT %s
        )', part.relname, attempts_max
    );
    GET DIAGNOSTICS gone = ROW_COUNT;
    more := part.is_followed OR gone >= attempts_max;
    IF gone < attempts_max THEN
        EXECUTE format('SELECT count(*) FROM (SELECT 1 FROM windlass.%I LIMIT 1000) AS first_of_them', part.relname) INTO dropped;
        EXECUTE format('DROP TABLE windlass.%I', part.relname);
        dropped := greatest(dropped, part.reltuples::bigint);
    END IF;
EXCEPTION WHEN lock_not_available OR undefined_table THEN
    dropped := 0;
    more := false;
END
$drop_partitions$;
