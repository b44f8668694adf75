-- CompletionTriggers: how each stands, as core writes it, what it watches, and when it may be looked at again. The version goes up with each change
-- and each firing, and whoever changes or fires a drain names the one it has read.
CREATE TABLE windlass.completion_triggers (
    name text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    kind text NOT NULL,
    watched text NOT NULL,
    wait_for_retries boolean NOT NULL,
    look_at timestamptz,
    last_job bigint,
    record text NOT NULL
) WITH (fillfactor = 50);

-- That something held a drain and holds it no more. Only ever added to, by whoever ends or moves a job, in its own statement: so nobody
-- waits for anybody. Whoever looks takes away the marks that it saw with what is left of the group, and no others.
CREATE TABLE windlass.completion_trigger_marks (
    id bigint GENERATED ALWAYS AS IDENTITY,
    trigger text COLLATE "C" NOT NULL,
    PRIMARY KEY (trigger, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Whether anything of a group is left is found by these, however much of it lies in the future or is parked by policies. The second is
-- for those who say just that: who looks for one gate must not take it for the index of gates.
DROP INDEX windlass.delayed_jobs_group;
CREATE INDEX delayed_jobs_group ON windlass.delayed_jobs (job_group, gate COLLATE "C", scheduled_at) WHERE job_group IS NOT NULL;
CREATE INDEX delayed_jobs_parked_queue ON windlass.delayed_jobs (queue, gate COLLATE "C", scheduled_at) WHERE coalesce(gate, '') <> '';

-- Marks the drains that a job held: all that watch it, or only those that do not wait for retries, if it goes on.
CREATE FUNCTION windlass.mark_triggers(job windlass.delayed_jobs, has_ended boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql AS $mark_triggers$
BEGIN
    INSERT INTO windlass.completion_trigger_marks (trigger)
    SELECT d.name FROM windlass.completion_triggers d
    WHERE d.watched = CASE d.kind WHEN 'queue' THEN job.queue WHEN 'type' THEN job.job_type ELSE job.job_group END
        AND (has_ended OR NOT d.wait_for_retries)
        AND NOT coalesce(starts_with(job.key, 'trigger/' || d.name || '/'), false);
END
$mark_triggers$;

-- A waiting job was put off: it held the drains that do not wait for retries, and holds them no more. As the owner: who puts jobs in
-- under a key has no right to see drains, and had none before there were any.
CREATE FUNCTION windlass.mark_put_off(number bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $mark_put_off$
BEGIN
    PERFORM windlass.mark_triggers(j, false) FROM windlass.delayed_jobs j WHERE j.id = number AND j.locked_by IS NULL;
END
$mark_put_off$;

-- Only for those who may put jobs in by themselves.
REVOKE EXECUTE ON FUNCTION windlass.mark_put_off FROM PUBLIC;
DO $grants$
DECLARE
    may record;
BEGIN
    FOR may IN
        SELECT DISTINCT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END AS who
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS a LEFT JOIN pg_roles r ON r.oid = a.grantee
        WHERE c.oid = 'windlass.delayed_jobs'::regclass AND a.privilege_type = 'INSERT' AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION windlass.mark_put_off TO %s', may.who);
    END LOOP;
END
$grants$;

-- What follows is as before, but for drains.
-- Gives a waiting job the payload, time, priority, expiry and label of a newcomer.
CREATE OR REPLACE FUNCTION windlass.renew_job(holder bigint, made windlass.delayed_jobs) RETURNS void LANGUAGE plpgsql AS $renew_job$
DECLARE
    before windlass.delayed_jobs;
    label jsonb := made.options::jsonb -> 'label';
BEGIN
    SELECT * INTO STRICT before FROM windlass.delayed_jobs d WHERE d.id = holder AND d.locked_by IS NULL FOR UPDATE;
    UPDATE windlass.delayed_jobs d
    SET payload = made.payload, scheduled_at = made.scheduled_at, priority = made.priority, expires_at = made.expires_at,
        options = nullif(
            jsonb_strip_nulls(coalesce(before.options::jsonb, '{}') || jsonb_build_object('label', label)), '{}'
        )
    WHERE d.id = holder;
    IF before.gate IS NULL THEN
        -- Two rows even within one minute: the second is what wakes a worker.
        INSERT INTO windlass.count_deltas (job_type, queue, minute, waiting)
        SELECT before.job_type, before.queue, floor(extract(epoch FROM due) / 60)::bigint, n
        FROM (VALUES (before.scheduled_at, -1), (made.scheduled_at, 1)) AS moved (due, n);
    END IF;
    -- It could run, and is put off. A new row was created when its job came in.
    IF before.scheduled_at <= made.created_at AND made.scheduled_at > made.created_at
        AND (before.gate IS NULL OR before.gate = 'suspect' OR before.gate LIKE 'ordering_key:%') THEN
        PERFORM windlass.mark_triggers(before, false);
    END IF;
END
$renew_job$;

-- Ends a job as succeeded, or as cancelled if somebody asked it to stop, if the claim still holds. False if it does not:
-- then nothing is written, and whatever else the transaction wrote should be rolled back. The attempt began with its claim.
CREATE OR REPLACE FUNCTION windlass.complete(job bigint, token uuid, present timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $complete$
DECLARE
    ended timestamptz := coalesce(present, clock_timestamp());
    gone windlass.delayed_jobs;
    retention integer;
    is_done boolean;
BEGIN
    DELETE FROM windlass.delayed_jobs d WHERE d.id = complete.job AND d.token = complete.token RETURNING d.* INTO gone;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    is_done := gone.cancel_requested IS NULL;
    -- A type whose row somebody has deleted keeps what types keep that say nothing of it.
    retention := coalesce((SELECT t.retention_days FROM windlass.job_types t WHERE t.name = gone.job_type), 7);
    IF retention > 0 THEN
        -- Whoever makes a day at this moment is waited for; else the row may be on its way to the default part when it
        -- may no longer lie there, and the whole transaction would fail. Nobody makes one until the transaction ends.
        LOCK TABLE windlass.job_history_rest IN ROW EXCLUSIVE MODE;
        INSERT INTO windlass.job_history (
            id, keep_until, scheduled_at, created_at, expires_at, ended_at, started_at, settled_by, worker,
            attempts, max_attempts, failures, crashes, holds, priority, state, queue, job_type, payload, key, correlation,
            job_group, tags, options, progress, last_error, why, ending
        ) VALUES (
            gone.id, ended + retention * interval '1 day', gone.scheduled_at, gone.created_at, gone.expires_at, ended,
            least(gone.locked_at, ended), gone.token, gone.locked_by, gone.attempts, gone.max_attempts, gone.failures,
            gone.crashes, gone.holds, gone.priority, CASE WHEN is_done THEN 1 ELSE 2 END, gone.queue, gone.job_type,
            gone.payload, gone.key, gone.correlation, gone.job_group, gone.tags, gone.options, gone.progress,
            gone.last_error, gone.cancel_requested, CASE WHEN is_done THEN 'succeeded' ELSE 'cancelled' END
        );
    ELSE
        INSERT INTO windlass.job_traces (settled_by, at, jobs) VALUES (gone.token, ended, ARRAY[gone.id]);
        DELETE FROM windlass.attempts a WHERE a.job = gone.id;
    END IF;
    INSERT INTO windlass.count_deltas (job_type, queue, running, succeeded, cancelled)
    VALUES (gone.job_type, gone.queue, -1, is_done::integer, (NOT is_done)::integer);
    INSERT INTO windlass.claim_ends (token, jobs) VALUES (gone.token, 1);
    IF gone.ordering_key IS NOT NULL THEN
        INSERT INTO windlass.ordering_key_marks (job_type, ordering_key) VALUES (gone.job_type, gone.ordering_key);
    END IF;
    PERFORM windlass.mark_triggers(gone);
    IF gone.key IS NOT NULL THEN
        INSERT INTO windlass.ended_keys (job, job_type, key) VALUES (gone.id, gone.job_type, gone.key);
    END IF;
    RETURN true;
END
$complete$;
