-- Claims, workers, and the tables through which idle workers are notified.

-- Each claim that returned jobs: its worker, its jobs, and how many of them it still holds. A claim that
-- holds none forgets its jobs. `claim_tombstones` marks a claim whose answer was lost and that its worker
-- queried: from then on its token returns no jobs, however late its statement arrives.
CREATE TABLE windlass.claims (
    token uuid PRIMARY KEY,
    at timestamptz NOT NULL,
    worker uuid,
    held integer NOT NULL DEFAULT 0,
    claim_tombstones boolean NOT NULL DEFAULT false,
    jobs bigint[]
);
-- Rarely read and written all the time: compression would cost more than the space.
ALTER TABLE windlass.claims ALTER COLUMN jobs SET STORAGE EXTERNAL;
CREATE INDEX claims_worker ON windlass.claims (worker) WHERE jobs IS NOT NULL;
CREATE INDEX claims_at ON windlass.claims (at);

-- How many jobs of a claim have left it; maintenance adds that up into `claims`. Rows are only inserted: two
-- sessions that end jobs of one claim at once would otherwise wait for each other, and for every caller that
-- ends a job in a long transaction.
CREATE TABLE windlass.claim_ends (
    token uuid NOT NULL,
    jobs integer NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Running jobs with their workers. A claim may name jobs that have left it since; the jobs that it holds bear
-- its token.
CREATE VIEW windlass.running AS
    SELECT j.id, c.worker, c.token FROM windlass.claims c
    CROSS JOIN LATERAL unnest(c.jobs) AS named (id)
    CROSS JOIN LATERAL (
        -- A subquery of its own, so that each job is found by its id, also by a plan that was made for empty
        -- tables.
        SELECT j.id FROM windlass.delayed_jobs j
        WHERE j.id = named.id AND j.token = c.token AND j.locked_by = c.worker OFFSET 0
    ) AS j
    WHERE c.jobs IS NOT NULL;

-- The order in which workers were declared dead.
CREATE SEQUENCE windlass.deaths AS bigint;

-- Processes that claim jobs. A worker that was declared dead has its number in the order of deaths, and in
-- `held` the jobs that it held then. It never comes back to life: not while its row stays, and not as an
-- unknown worker later. `duties` are the duties that it could do for all processes; the standby of a duty
-- is chosen among the workers with that duty, by `place`, the ring position of a worker. `slots` says how
-- many jobs it can run at once, `clock_ahead_micros` how far its clock was ahead of the server's at its
-- last heartbeat.
CREATE TABLE windlass.workers (
    id uuid PRIMARY KEY,
    since timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    beats bigint NOT NULL,
    lease_micros bigint NOT NULL,
    died bigint,
    pid bigint NOT NULL,
    place bigint NOT NULL DEFAULT 0,
    slots bigint NOT NULL DEFAULT 0,
    clock_ahead_micros bigint,
    host text NOT NULL,
    version text NOT NULL,
    queues text[] NOT NULL,
    types text[] NOT NULL,
    duties text[] NOT NULL DEFAULT '{}',
    held bigint[]
) WITH (fillfactor = 50);
CREATE INDEX workers_died ON windlass.workers (died) WHERE died IS NOT NULL;

-- Idle workers: the queue and the types for which a worker wants to be notified, and the channel it listens
-- on. Lost in a crash of the server, which does no harm.
CREATE UNLOGGED TABLE windlass.waiting (
    queue text NOT NULL,
    channel text NOT NULL,
    since timestamptz NOT NULL,
    types text[] NOT NULL,
    PRIMARY KEY (queue, channel)
) WITH (fillfactor = 50);

-- Jobs that became ready behind the cursors of claims, so that claims read there again. Kept for a minute.
CREATE TABLE windlass.requeued_jobs (
    at timestamptz NOT NULL,
    scheduled_at timestamptz NOT NULL,
    priority smallint NOT NULL,
    queue text NOT NULL
);
CREATE INDEX requeued_jobs_at ON windlass.requeued_jobs (at);
