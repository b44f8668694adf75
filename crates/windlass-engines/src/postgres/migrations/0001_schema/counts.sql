-- Counts of jobs, the statistics of each minute, and the trigger that notifies idle workers.

-- How many jobs of each type are in each state, and its events so far. The changes in `count_deltas` come
-- on top. `started_over` says how often a dead letter was started over: without it, a job that died three
-- times would count as one death.
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
    cancelled bigint NOT NULL,
    started_over bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- How many waiting jobs without a gate fall due in which minute, so that ready and scheduled jobs can be told
-- apart without a scan. Past minutes are folded into one.
CREATE TABLE windlass.count_minutes (
    queue text NOT NULL,
    minute bigint NOT NULL,
    n bigint NOT NULL,
    PRIMARY KEY (queue, minute)
) WITH (fillfactor = 50);

-- The changes of each statement; maintenance adds them up into `counts` and `count_minutes`. Rows are only
-- inserted: a row of `counts` that every statement updates would be locked by any caller's open
-- transaction. `quiet` says that no worker needs a notification.
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
    started_over integer NOT NULL DEFAULT 0,
    quiet boolean NOT NULL DEFAULT false,
    job_type text NOT NULL,
    queue text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- The minute of an instant, counted from 1970.
CREATE FUNCTION windlass.minute_of(instant timestamptz) RETURNS bigint LANGUAGE sql STABLE AS $minute_of$
    SELECT floor(extract(epoch FROM instant) / 60)::bigint
$minute_of$;

-- Notifies one of the workers that wait for a queue in which a job may be claimable now. At commit: a
-- worker may become idle while the caller's transaction is still open. As the owner, since the caller may
-- have no right to see the idle workers.
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

-- Rollups of each minute, queue and type; minutes count from 1970. `waits` and `runs` are histograms in
-- core's format. Not to be confused with count_minutes, which says when waiting jobs fall due.
CREATE TABLE windlass.job_rollups (
    minute bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    job_type text COLLATE "C" NOT NULL,
    enqueued bigint NOT NULL,
    started bigint NOT NULL,
    succeeded bigint NOT NULL,
    retried bigint NOT NULL,
    dead bigint NOT NULL,
    cancelled bigint NOT NULL,
    waits text NOT NULL,
    runs text NOT NULL,
    PRIMARY KEY (minute, queue, job_type)
);

-- Samples from workers, which a duty adds to the rollups. Rows are only inserted, so no worker waits for
-- another.
CREATE TABLE windlass.rollup_samples (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    seen text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- The watermark: up to which point the totals of `counts` and `count_deltas` are in the rollups. A process
-- that rolls up names the version that it has read.
CREATE TABLE windlass.rollup_watermark (
    one boolean PRIMARY KEY CHECK (one),
    version bigint NOT NULL,
    booked text NOT NULL
) WITH (fillfactor = 50);
INSERT INTO windlass.rollup_watermark (one, version, booked) VALUES (true, 0, '');
