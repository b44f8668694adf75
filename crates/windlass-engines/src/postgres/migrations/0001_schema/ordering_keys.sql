-- Ordering keys (`ordering_key`): jobs of one type and ordering key run one at a time, in the order of
-- their ids. A job that is not behind the gate of its key is out, and only one job of a key may be out; the
-- unique index delayed_jobs_ordering_key_out ensures it.
--
-- A job with an ordering key is stored behind its gate. Every event that may let the next job out (a job is
-- enqueued, ends, or is started over) leaves a mark in its own transaction, and waits for nothing. Marks
-- are processed at the commit, each key under a lock of its own, which so is held for no longer than a
-- commit takes: an open transaction of the application delays no other job of its key. If another session
-- has the lock, the mark stays, and the session that sees it after the commit processes it: the same
-- client, and otherwise a poll or a sweep.

-- The gate of an ordering key.
CREATE FUNCTION windlass.ordering_key_gate(job_type text, ordering_key text) RETURNS text
LANGUAGE sql IMMUTABLE AS $ordering_key_gate$
    SELECT 'ordering_key:' || job_type || ':' || ordering_key
$ordering_key_gate$;

-- Keys whose next job may have to go out.
CREATE TABLE windlass.ordering_key_marks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_type text NOT NULL,
    ordering_key text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX ordering_key_marks_ordering_key ON windlass.ordering_key_marks (job_type, ordering_key);

-- The number of the lock of an ordering key: one of 1,024 of its schema. With a lock for each key, a
-- transaction with thousands of keys would fill the lock table that all sessions of the server share. If two
-- keys share a number, one waits for the other.
CREATE FUNCTION windlass.ordering_key_lock(job_type text, ordering_key text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $ordering_key_lock$
BEGIN
    RETURN 87::bigint << 48 | 'windlass.ordering_key_marks'::regclass::oid::bigint << 10
        | (hashtextextended(job_type || ':' || ordering_key, 0) & 1023);
END
$ordering_key_lock$;

-- Processes the marks of some keys, or (null) of the keys with the oldest marks: for each key without a job
-- that is out, the oldest job goes out. Never waits, and one key keeps no other from advancing. Returns the
-- result of each key: 'went' is a job that goes out, 'out' a job that has been out before and waits, and
-- 'busy' says that another session has the lock, or has the oldest job locked (it is not skipped, since
-- that would change the order): the marks stay for the next time. 'more' names the mark behind which there
-- may be others. Two sessions at once take each key one after the other, and the second sees the result of
-- the first: each statement here takes a new snapshot once it has the lock, and only marks are deleted that
-- were seen before anything else was read. No mark is inserted here: at a commit it would call this
-- function again, for as long as another session has the job locked. As the owner: a role that only
-- enqueues jobs has no right to change existing ones.
CREATE FUNCTION windlass.advance_ordering_key(
    types text[], names text[], behind bigint, at_most integer, after_a_crash text
)
RETURNS TABLE (
    what text, of_type text, of_ordering_key text, went_to text, at_priority smallint, due timestamptz, number bigint
) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off
AS $advance_ordering_key$
DECLARE
    marks bigint[];
    oldest bigint;
    through windlass.delayed_jobs;
BEGIN
    IF types IS NULL THEN
        SELECT array_agg(m.job_type), array_agg(m.ordering_key), max(m.id) INTO types, names, number FROM (
            SELECT k.id, k.job_type, k.ordering_key FROM windlass.ordering_key_marks k WHERE k.id > behind
            ORDER BY k.id LIMIT at_most
        ) AS m;
        IF cardinality(types) = at_most THEN
            what := 'more';
            RETURN NEXT;
        END IF;
    END IF;
    FOR of_type, of_ordering_key IN
        SELECT DISTINCT i.job_type, i.ordering_key FROM unnest(types, names) AS i (job_type, ordering_key)
    LOOP
        IF NOT EXISTS (SELECT 1 FROM windlass.ordering_key_marks m WHERE m.job_type = of_type AND m.ordering_key = of_ordering_key) THEN
            -- Usually the trigger at commit has let the job out, which reports to no client.
            RETURN QUERY
            SELECT 'out', of_type, of_ordering_key, j.queue, j.priority, j.scheduled_at, j.id FROM windlass.delayed_jobs j
            WHERE j.job_type = of_type AND j.ordering_key = of_ordering_key AND (j.gate IS NULL OR j.gate NOT LIKE 'ordering_key:%')
                AND j.gate IS NULL AND j.locked_at IS NULL;
            CONTINUE;
        END IF;
        what := 'busy';
        IF NOT pg_try_advisory_xact_lock(windlass.ordering_key_lock(of_type, of_ordering_key)) THEN
            RETURN NEXT;
            CONTINUE;
        END IF;
        marks := ARRAY(SELECT m.id FROM windlass.ordering_key_marks m WHERE m.job_type = of_type AND m.ordering_key = of_ordering_key);
        oldest := NULL;
        IF NOT EXISTS (
            SELECT 1 FROM windlass.delayed_jobs j
            WHERE j.job_type = of_type AND j.ordering_key = of_ordering_key AND (j.gate IS NULL OR j.gate NOT LIKE 'ordering_key:%')
        ) THEN
            SELECT j.id INTO oldest FROM windlass.delayed_jobs j
            WHERE j.job_type = of_type AND j.ordering_key = of_ordering_key AND j.gate LIKE 'ordering_key:%' ORDER BY j.id LIMIT 1;
        END IF;
        IF oldest IS NOT NULL THEN
            UPDATE windlass.delayed_jobs j SET gate = CASE WHEN j.crashes > 0 THEN after_a_crash END
            WHERE j.id = (
                SELECT k.id FROM windlass.delayed_jobs k
                WHERE k.id = oldest AND k.gate LIKE 'ordering_key:%' FOR UPDATE SKIP LOCKED
            )
            RETURNING j.* INTO through;
            IF NOT FOUND THEN
                RETURN NEXT;
                CONTINUE;
            END IF;
            IF through.gate IS NULL THEN
                INSERT INTO windlass.count_deltas (job_type, queue, minute, waiting, parked)
                VALUES (through.job_type, through.queue, windlass.minute_of(through.scheduled_at), 1, -1);
                INSERT INTO windlass.requeued_jobs (at, queue, priority, scheduled_at)
                VALUES (clock_timestamp(), through.queue, through.priority, through.scheduled_at);
            END IF;
            RETURN QUERY
            SELECT 'went', of_type, of_ordering_key, through.queue, through.priority, through.scheduled_at, through.id;
        END IF;
        DELETE FROM windlass.ordering_key_marks m WHERE m.id = ANY (marks);
    END LOOP;
END
$advance_ordering_key$;
REVOKE EXECUTE ON FUNCTION windlass.advance_ordering_key FROM PUBLIC;

-- At the commit of the transaction that left a mark, as the owner, since the caller may have no right to
-- see jobs. It processes a limited number of keys of a transaction, so that no commit takes long. Other
-- sessions process the rest, and the keys that a transaction with an old snapshot cannot see.
CREATE FUNCTION windlass.advance_at_commit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $advance_at_commit$
DECLARE
    so_far integer := coalesce(nullif(current_setting('windlass_ordering_key.at_commit', true), ''), '0')::integer;
BEGIN
    -- By its id: of thousands of marks of one key the first one deletes all, and the others find that at
    -- once.
    IF so_far < 50 AND current_setting('transaction_isolation') = 'read committed'
        AND EXISTS (SELECT 1 FROM windlass.ordering_key_marks m WHERE m.id = NEW.id) THEN
        PERFORM set_config('windlass_ordering_key.at_commit', (so_far + 1)::text, true);
        PERFORM windlass.advance_ordering_key(ARRAY[NEW.job_type], ARRAY[NEW.ordering_key], 0, 0, 'suspect');
    END IF;
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    -- A caller's transaction must not fail because of the order of other jobs. The mark stays.
    RETURN NULL;
END
$advance_at_commit$;
CREATE CONSTRAINT TRIGGER ordering_key_marks_advance AFTER INSERT ON windlass.ordering_key_marks
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION windlass.advance_at_commit();
