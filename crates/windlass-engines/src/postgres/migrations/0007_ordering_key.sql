-- Ordering keys: jobs of one type and name run one at a time, in the order of their numbers. Whoever is not behind the gate of its
-- ordering_key is out, and only one may be; the index says so to everybody.
--
-- A job of an ordering key comes in behind its gate. Whatever may let somebody out (a job that comes in, one that ends, one that is
-- started over) leaves a mark in its own transaction, and waits for nobody. Marks are worked off at the commit, each ordering key
-- under a lock of its own, which so is held for no longer than a commit takes: an open transaction of the application holds up
-- no other job of its ordering key. If somebody else is at it, the mark stays, and whoever sees it after the commit goes on: the
-- same client, and else a look or a sweep.
ALTER TABLE windlass.delayed_jobs ADD COLUMN ordering_key text;
CREATE UNIQUE INDEX delayed_jobs_ordering_key_out ON windlass.delayed_jobs (job_type, ordering_key)
    WHERE ordering_key IS NOT NULL AND (gate IS NULL OR gate NOT LIKE 'ordering_key:%');
CREATE INDEX delayed_jobs_ordering_key_line ON windlass.delayed_jobs (job_type, ordering_key, id)
    WHERE ordering_key IS NOT NULL AND gate LIKE 'ordering_key:%';
-- Gates that policies open: whoever looks for those must not walk over all that wait in ordering_key.
CREATE INDEX delayed_jobs_gates ON windlass.delayed_jobs (gate) WHERE gate IS NOT NULL AND gate NOT LIKE 'ordering_key:%';

CREATE TABLE windlass.ordering_key_marks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_type text NOT NULL,
    ordering_key text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX ordering_key_marks_ordering_key ON windlass.ordering_key_marks (job_type, ordering_key);

-- The number of the lock of an ordering key: one of 1,024 of its schema. With one for each ordering key, a transaction with thousands of them
-- would fill the table of locks that all sessions of the server share. If two ordering_key share a number, one waits for the other.
CREATE FUNCTION windlass.ordering_key_lock(job_type text, ordering_key text) RETURNS bigint LANGUAGE plpgsql STABLE AS $ordering_key_lock$
BEGIN
    RETURN 87::bigint << 48 | 'windlass.ordering_key_marks'::regclass::oid::bigint << 10
        | (hashtextextended(job_type || ':' || ordering_key, 0) & 1023);
END
$ordering_key_lock$;

-- Works off the marks of some ordering keys, or (null) of those that have waited longest: in each in which nobody is out, the oldest in
-- line goes out. Never waits, and one ordering key keeps no other from going on. Tells of each what became of it: 'went' is a job that
-- goes out, 'out' one that waits since before, 'busy' that somebody else is at it or has the oldest locked (it is not passed over,
-- since that would be another order): its marks stay for the next time; and 'more' behind which mark there may be others.
-- Two at once go one after the other in each ordering key, and the second sees what the first did: each statement here reads anew once
-- it has the lock, and only marks are taken away that were seen before anything else was looked at. No mark is written here: at
-- a commit it would call this again, for as long as somebody has the job locked.
-- As the owner: who only puts jobs in has no right to change those that are there.
CREATE FUNCTION windlass.advance_ordering_key(
    types text[], names text[], behind bigint, at_most integer, after_a_crash text
)
RETURNS TABLE (
    what text, of_type text, of_ordering_key text, went_to text, at_priority smallint, due timestamptz, number bigint
) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off
AS $advance_ordering_key$
DECLARE
    marks bigint[];
    oldest bigint;
    through windlass.delayed_jobs;
BEGIN
    IF types IS NULL THEN
        SELECT array_agg(m.job_type), array_agg(m.ordering_key), max(m.id) INTO types, names, number FROM (
            SELECT k.id, k.job_type, k.ordering_key FROM windlass.ordering_key_marks k WHERE k.id > behind ORDER BY k.id LIMIT at_most
        ) AS m;
        IF cardinality(types) = at_most THEN
            what := 'more';
            RETURN NEXT;
        END IF;
    END IF;
    FOR of_type, of_ordering_key IN SELECT DISTINCT i.job_type, i.ordering_key FROM unnest(types, names) AS i (job_type, ordering_key) LOOP
        IF NOT EXISTS (SELECT 1 FROM windlass.ordering_key_marks m WHERE m.job_type = of_type AND m.ordering_key = of_ordering_key) THEN
            -- Mostly the commit has done it, which told nobody.
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
                VALUES (through.job_type, through.queue, floor(extract(epoch FROM through.scheduled_at) / 60)::bigint, 1, -1);
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

-- At the commit of whoever left a mark, as the owner, since the caller may have no right to see jobs. It does so for some ordering keys
-- of a transaction, so that no commit takes long; what it leaves, and what a transaction that sees an old state cannot know, others
-- work off.
CREATE FUNCTION windlass.advance_at_commit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $advance_at_commit$
DECLARE
    so_far integer := coalesce(nullif(current_setting('windlass_ordering_key.at_commit', true), ''), '0')::integer;
BEGIN
    -- By its number: of thousands of marks of one ordering key the first one takes all away, and the others find that at once.
    IF so_far < 50 AND current_setting('transaction_isolation') = 'read committed'
        AND EXISTS (SELECT 1 FROM windlass.ordering_key_marks m WHERE m.id = NEW.id) THEN
        PERFORM set_config('windlass_ordering_key.at_commit', (so_far + 1)::text, true);
        PERFORM windlass.advance_ordering_key(ARRAY[NEW.job_type], ARRAY[NEW.ordering_key], 0, 0, 'suspect');
    END IF;
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    -- Nobody's transaction fails because of somebody else's order. The mark stays.
    RETURN NULL;
END
$advance_at_commit$;
CREATE CONSTRAINT TRIGGER ordering_key_marks_advance AFTER INSERT ON windlass.ordering_key_marks
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION windlass.advance_at_commit();

-- What follows is as before, but for `ordering_key`.
ALTER TYPE windlass.new_job ADD ATTRIBUTE ordering_key text;

-- What is wrong with the values of a new job, before anybody asks whether it is welcome; null if nothing is.
CREATE OR REPLACE FUNCTION windlass.wrong_value(job windlass.new_job) RETURNS text LANGUAGE plpgsql STABLE AS $wrong_value$
DECLARE
    plain CONSTANT text := '^[A-Za-z0-9_.-]{1,64}$';
    control CONSTANT text := '[\u0001-\u001f\u007f-\u009f]';
    printable CONSTANT text := 'expected %s of 1 to %s bytes without control characters, got %s';
    body text := job.payload::text;
    tag text;
BEGIN
    IF job.unreadable IS NOT NULL THEN
        RETURN job.unreadable;
    ELSIF job.job_type IS NULL OR job.job_type !~ plain THEN
        RETURN format(
            'expected a job type''s name of 1 to 64 characters out of A-Z a-z 0-9 _ . -, got %s', windlass.shown(job.job_type)
        );
    ELSIF job.queue !~ plain THEN
        RETURN format('expected a queue name of 1 to 64 characters out of a-z 0-9 _ . -, got %s', windlass.shown(job.queue));
    ELSIF octet_length(body) > 1048576 THEN
        RETURN format(
            'expected a payload of at most 1048576 bytes, got %s; keep big data elsewhere and put a reference to it in the job',
            octet_length(body)
        );
    ELSIF strpos(body, '\u0000') > 0 THEN
        RETURN 'expected a payload without NUL characters, got one';
    -- Most have fewer brackets in all than would be too deep, those in strings included.
    ELSIF length(body) - length(translate(body, '[{', '')) > 64 AND windlass.is_too_deep(body) THEN
        RETURN 'expected a payload of at most 64 levels, got more';
    ELSIF job.priority NOT BETWEEN 0 AND 10 THEN
        RETURN format('expected a priority from 0 (most urgent) to 10, got %s', job.priority);
    ELSIF job.label !~ plain THEN
        RETURN format('expected a priority label of 1 to 64 characters out of a-z 0-9 _ . -, got %s', windlass.shown(job.label));
    ELSIF octet_length(job.correlation_id) NOT BETWEEN 1 AND 256 OR job.correlation_id ~ control THEN
        RETURN format(printable, 'a correlation id', 256, windlass.shown(job.correlation_id));
    ELSIF octet_length(job.job_group) NOT BETWEEN 1 AND 256 OR job.job_group ~ control THEN
        RETURN format(printable, 'a group''s name', 256, windlass.shown(job.job_group));
    ELSIF octet_length(job.ordering_key) NOT BETWEEN 1 AND 256 OR job.ordering_key ~ control THEN
        RETURN format(printable, 'an ordering key'' name', 256, windlass.shown(job.ordering_key));
    ELSIF job.delay IS NOT NULL AND job.run_at IS NOT NULL THEN
        RETURN 'expected `delay` or `run_at`, got both';
    ELSIF job.expires_in IS NOT NULL AND job.expires_at IS NOT NULL THEN
        RETURN 'expected `expires_in` or `expires_at`, got both';
    ELSIF job.delay < interval '0' THEN
        RETURN format('expected a `delay` of zero or more, got %s', job.delay);
    ELSIF job.expires_in < interval '0' THEN
        RETURN format('expected an `expires_in` of zero or more, got %s', job.expires_in);
    END IF;
    IF job.key IS NOT NULL THEN
        IF octet_length(job.key) NOT BETWEEN 1 AND 256 OR job.key ~ control THEN
            RETURN format(printable, 'a key', 256, windlass.shown(job.key));
        ELSIF job.on_conflict NOT IN ('keep', 'replace', 'revive') THEN
            RETURN format('expected `on_conflict` out of keep, replace, revive, got %s', windlass.shown(job.on_conflict));
        ELSIF job.key_scope NOT IN ('while-live', 'while-live-or-dead')
            AND coalesce(windlass.read_span(job.key_scope) < interval '0', true) THEN
            RETURN format(
                'expected `key_scope` out of while-live, while-live-or-dead, or a period such as 1 hour, got %s',
                windlass.shown(job.key_scope)
            );
        END IF;
    END IF;
    IF job.tags IS NOT NULL THEN
        FOREACH tag IN ARRAY job.tags LOOP
            IF coalesce(octet_length(tag), 0) NOT BETWEEN 1 AND 64 OR tag ~ control THEN
                RETURN format(printable, 'a tag', 64, windlass.shown(tag));
            END IF;
        END LOOP;
    END IF;
    RETURN NULL;
END
$wrong_value$;

-- The row of a new job, but for its number.
CREATE OR REPLACE FUNCTION windlass.row_of(job windlass.new_job, door windlass.accept_rules, at timestamptz) RETURNS windlass.delayed_jobs
LANGUAGE plpgsql STABLE AS $row_of$
DECLARE
    made windlass.delayed_jobs;
    options jsonb;
BEGIN
    made.queue := door.queue;
    made.job_type := job.job_type;
    made.payload := job.payload;
    made.priority := coalesce(job.priority, door.priority);
    made.created_at := at;
    made.scheduled_at := windlass.instant_of(job.delay, job.run_at, at);
    IF job.expires_in IS NOT NULL OR job.expires_at IS NOT NULL THEN
        made.expires_at := windlass.instant_of(job.expires_in, job.expires_at, at);
    END IF;
    made.key := job.key;
    IF job.ordering_key IS NOT NULL THEN
        made.ordering_key := job.ordering_key;
        made.gate := 'ordering_key:' || job.job_type || ':' || job.ordering_key;
    END IF;
    made.correlation := job.correlation_id;
    made.job_group := job.job_group;
    made.max_attempts := door.max_attempts;
    IF cardinality(job.tags) > 0 THEN
        made.tags := to_json(job.tags);
    END IF;
    IF job.retry IS NOT NULL THEN
        made.max_attempts := (windlass.check_retry(job.retry)).attempts;
    END IF;
    IF job.label IS NOT NULL OR job.retry IS NOT NULL OR job.timeout IS NOT NULL OR job.key IS NOT NULL
        OR job.ordering_key IS NOT NULL THEN
        options := jsonb_strip_nulls(jsonb_build_object(
            'label', lower(job.label),
            'retry', job.retry,
            'timeout_micros', (extract(epoch FROM job.timeout) * 1000000)::bigint,
            'scope', CASE WHEN job.key IS NOT NULL AND job.key_scope <> 'while-live' THEN windlass.scope_of(job.key_scope) END,
            'on_conflict', CASE WHEN job.key IS NOT NULL AND job.on_conflict <> 'keep' THEN job.on_conflict END,
            'ordering_key', job.ordering_key
        ));
        made.options := nullif(options, '{}');
    END IF;
    RETURN made;
END
$row_of$;

-- Stores new jobs.
CREATE OR REPLACE FUNCTION windlass.insert_jobs(made windlass.delayed_jobs[]) RETURNS void LANGUAGE plpgsql AS $insert_jobs$
BEGIN
    INSERT INTO windlass.delayed_jobs (
        id, scheduled_at, created_at, expires_at, max_attempts, priority, queue, job_type, payload, key,
        correlation, job_group, tags, options, ordering_key, gate
    )
    SELECT m.id, m.scheduled_at, m.created_at, m.expires_at, m.max_attempts, m.priority, m.queue, m.job_type, m.payload,
        m.key, m.correlation, m.job_group, m.tags, m.options, m.ordering_key, m.gate
    FROM unnest(made) AS m;
    INSERT INTO windlass.ordering_key_marks (job_type, ordering_key)
    SELECT DISTINCT m.job_type, m.ordering_key FROM unnest(made) AS m WHERE m.ordering_key IS NOT NULL;
END
$insert_jobs$;

-- Starts a dead letter over with fresh counters, and gives it its key again. It was started in time once, so it no longer
-- expires.
CREATE OR REPLACE FUNCTION windlass.start_over(letter bigint, due timestamptz) RETURNS void LANGUAGE plpgsql AS $start_over$
DECLARE
    gone windlass.delayed_jobs_dlq;
    of_ordering_key text;
BEGIN
    DELETE FROM windlass.delayed_jobs_dlq d WHERE d.id = letter RETURNING d.* INTO STRICT gone;
    INSERT INTO windlass.attempts (job, number, worker, started_at, ended_at, ending, error, output)
    SELECT gone.id, gone.attempts, gone.worker, gone.started_at, gone.ended_at, gone.ending, gone.attempt_error, gone.output
    WHERE gone.worker IS NOT NULL AND gone.started_at IS NOT NULL AND gone.ending IS NOT NULL;
    of_ordering_key := gone.options::jsonb ->> 'ordering_key';
    INSERT INTO windlass.delayed_jobs (
        id, scheduled_at, created_at, settled_by, max_attempts, priority, queue, job_type, payload, key, correlation,
        job_group, tags, options, last_error, ordering_key, gate
    ) VALUES (
        gone.id, due, gone.created_at, gone.settled_by, gone.max_attempts, gone.priority, gone.queue, gone.job_type,
        gone.payload, gone.key, gone.correlation, gone.job_group, gone.tags, gone.options, gone.last_error,
        of_ordering_key, 'ordering_key:' || gone.job_type || ':' || of_ordering_key
    );
    IF of_ordering_key IS NOT NULL THEN
        INSERT INTO windlass.ordering_key_marks (job_type, ordering_key) VALUES (gone.job_type, of_ordering_key);
    END IF;
    -- The key is held by this very letter already, with the scope and for the time that it was given then.
    IF of_ordering_key IS NULL THEN
        INSERT INTO windlass.count_deltas (job_type, queue, minute, waiting, dead_letters, dead) VALUES
            (gone.job_type, gone.queue, floor(extract(epoch FROM due) / 60)::bigint, 1, 0, 0),
            (gone.job_type, gone.queue, NULL, 0, -1, -1);
    ELSE
        INSERT INTO windlass.count_deltas (job_type, queue, parked, dead_letters, dead)
        VALUES (gone.job_type, gone.queue, 1, -1, -1);
    END IF;
END
$start_over$;

-- Puts new jobs in, each judged by itself, knowing what those before it did. Keys are locked before jobs, in order.
CREATE OR REPLACE FUNCTION windlass.put_jobs(jobs windlass.new_job[], request_id uuid, present timestamptz)
RETURNS SETOF windlass.placed LANGUAGE plpgsql AS $put_jobs$
DECLARE
    at timestamptz := coalesce(present, clock_timestamp());
    new_one windlass.new_job;
    door windlass.accept_rules;
    depths jsonb := '{}';
    one windlass.placed;
    placed windlass.placed[] := '{}';
    made windlass.delayed_jobs;
    without_key windlass.delayed_jobs[] := '{}';
    counted jsonb[] := '{}';
    has_refused boolean := false;
BEGIN
    IF request_id IS NOT NULL AND NOT windlass.open_receipt(request_id, at) THEN
        RETURN QUERY SELECT * FROM windlass.answered_before(request_id, at);
        RETURN;
    END IF;
    IF cardinality(jobs) > 1 THEN
        PERFORM windlass.take_keys(array_agg(j.job_type), array_agg(j.key)) FROM unnest(jobs) AS j
        WHERE j.key IS NOT NULL AND windlass.wrong_value(j) IS NULL AND (windlass.verdict(j, at)).answer <> 'kept'
        HAVING count(*) > 0;
    END IF;
    FOREACH new_one IN ARRAY jobs LOOP
        IF door.job_type IS DISTINCT FROM new_one.job_type THEN
            SELECT t.name, t.queue, coalesce(t.priority, q.priority), t.max_attempts, q.capacity, q.shut INTO door
            FROM windlass.job_types t JOIN windlass.queues q ON q.name = t.queue WHERE t.name = new_one.job_type;
        END IF;
        IF door.capacity IS NOT NULL AND NOT depths ? door.queue THEN
            depths := depths || jsonb_build_object(door.queue, windlass.unfinished(door.queue));
        END IF;
        one := windlass.judge(new_one, door, (depths ->> door.queue)::bigint, at);
        one.position := cardinality(placed) + 1;
        IF one.answer IN ('new', 'replaced', 'revived') THEN
            made := windlass.row_of(new_one, door, at);
        END IF;
        IF one.answer = 'new' THEN
            made.id := nextval('windlass.job_ids');
            one.id := made.id;
            counted := counted || jsonb_build_object(
                'job_type', made.job_type, 'queue', made.queue, 'minute', CASE WHEN made.ordering_key IS NULL THEN floor(extract(epoch FROM made.scheduled_at) / 60) END
            );
            IF depths ? door.queue THEN
                depths := depths || jsonb_build_object(door.queue, (depths ->> door.queue)::bigint + 1);
            END IF;
            IF made.key IS NULL THEN
                without_key := without_key || made;
            ELSE
                PERFORM windlass.insert_keyed(made, new_one.key_scope);
            END IF;
        ELSIF one.answer = 'replaced' THEN
            PERFORM windlass.renew_job(one.id, made);
        ELSIF one.answer = 'revived' THEN
            PERFORM windlass.start_over(one.id, made.scheduled_at);
            PERFORM windlass.renew_job(one.id, made);
        END IF;
        has_refused := has_refused OR one.answer = 'refused';
        placed := placed || one;
    END LOOP;
    PERFORM windlass.insert_jobs(without_key);
    -- What comes in behind the gate of its ordering key has no minute.
    INSERT INTO windlass.count_deltas (job_type, queue, minute, waiting, parked, enqueued)
    SELECT c ->> 'job_type', c ->> 'queue', (c ->> 'minute')::bigint, count(c ->> 'minute'),
        count(*) - count(c ->> 'minute'), count(*)
    FROM unnest(counted) AS c GROUP BY 1, 2, 3;
    IF has_refused THEN
        -- Rows of keys that nobody took in the end.
        DELETE FROM windlass.job_keys k USING unnest(jobs) AS j
        WHERE k.job_type = j.job_type AND k.key = j.key AND k.job IS NULL;
    END IF;
    IF request_id IS NOT NULL THEN
        PERFORM windlass.close_receipt(request_id, placed);
    END IF;
    RETURN QUERY SELECT p.* FROM unnest(placed) AS p;
END
$put_jobs$;

-- A job out of a list, with the fields of enqueue. Whatever cannot be read is that job's own fault and nobody else's, so
-- nothing is raised here.
CREATE OR REPLACE FUNCTION windlass.read_job(job json) RETURNS windlass.new_job LANGUAGE plpgsql STABLE AS $read_job$
DECLARE
    known CONSTANT text[] := '{job_type,payload,queue,priority,delay,run_at,expires_in,expires_at,key,key_scope,on_conflict,correlation_id,job_group,tags,label,timeout,retry,ordering_key}';
    pairs CONSTANT text := '\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}';
    body text := job::text;
    made windlass.new_job;
    field record;
    odd text;
BEGIN
    IF json_typeof(job) <> 'object' THEN
        made.unreadable := format('expected a job as a JSON object, got %s', json_typeof(job));
    ELSIF strpos(body, '\u0000') > 0 THEN
        made.unreadable := 'expected a payload without NUL characters, got one';
    ELSIF body ~* '\\ud[89a-f]' AND regexp_replace(body, pairs, '', 'g') ~* '\\ud[89a-f]' THEN
        made.unreadable := 'expected JSON in which every escape is a character, got half a surrogate pair';
    END IF;
    IF made.unreadable IS NOT NULL THEN
        RETURN made;
    END IF;
    SELECT min(f) INTO odd FROM json_object_keys(job) AS f WHERE f <> ALL (known);
    SELECT * INTO field FROM json_to_record(job) AS f (
        job_type text, queue text, priority text, delay text, run_at text, expires_in text, expires_at text, key text,
        key_scope text, on_conflict text, correlation_id text, job_group text, tags json, label text, timeout text, retry jsonb,
        ordering_key text
    );
    made.job_type := field.job_type;
    -- Not as a column of the record, which would take a payload of null for none.
    made.payload := coalesce(job -> 'payload', '{}');
    made.queue := field.queue;
    made.priority := CASE WHEN field.priority ~ '^-?[0-9]{1,9}$' THEN field.priority::integer END;
    made.delay := windlass.read_span(field.delay);
    made.run_at := windlass.read_instant(field.run_at);
    made.expires_in := windlass.read_span(field.expires_in);
    made.expires_at := windlass.read_instant(field.expires_at);
    made.key := field.key;
    made.key_scope := coalesce(field.key_scope, 'while-live');
    made.on_conflict := coalesce(field.on_conflict, 'keep');
    made.correlation_id := field.correlation_id;
    made.job_group := field.job_group;
    made.label := field.label;
    made.ordering_key := field.ordering_key;
    made.timeout := windlass.read_span(field.timeout);
    made.retry := field.retry;
    IF json_typeof(field.tags) = 'array' THEN
        made.tags := ARRAY (SELECT json_array_elements_text(field.tags));
    END IF;
    made.unreadable := CASE
        WHEN odd IS NOT NULL THEN format('expected fields out of %s, got %s', array_to_string(known, ', '), windlass.shown(odd))
        WHEN field.priority IS NOT NULL AND made.priority IS NULL
            THEN format('expected a priority from 0 (most urgent) to 10, got %s', windlass.shown(field.priority))
        WHEN field.tags IS NOT NULL AND made.tags IS NULL THEN 'expected `tags` as an array of texts'
        WHEN field.delay IS NOT NULL AND made.delay IS NULL THEN windlass.no_span('delay', field.delay)
        WHEN field.expires_in IS NOT NULL AND made.expires_in IS NULL THEN windlass.no_span('expires_in', field.expires_in)
        WHEN field.timeout IS NOT NULL AND made.timeout IS NULL THEN windlass.no_span('timeout', field.timeout)
        WHEN field.run_at IS NOT NULL AND made.run_at IS NULL THEN windlass.no_instant('run_at', field.run_at)
        WHEN field.expires_at IS NOT NULL AND made.expires_at IS NULL THEN windlass.no_instant('expires_at', field.expires_at)
    END;
    RETURN made;
END
$read_job$;

-- An argument more makes another function. Whoever was allowed to call the old one may call the new one.
SELECT set_config('windlass_ordering_key.may_enqueue', coalesce(json_agg(json_build_object(
    'who', CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END, 'is_grantable', a.is_grantable
))::text, '[]'), true)
FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) AS a LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE p.oid = 'windlass.enqueue(text, json, text, integer, interval, timestamptz, interval, timestamptz, text, text, text, text, text, text[], text, interval, jsonb, uuid)'::regprocedure
    AND a.privilege_type = 'EXECUTE' AND a.grantee <> p.proowner;
DROP FUNCTION windlass.enqueue(text, json, text, integer, interval, timestamptz, interval, timestamptz, text, text, text, text, text, text[], text, interval, jsonb, uuid);

-- Puts one job in and answers its number, or that of the job that holds its key. Raises what core refuses.
CREATE FUNCTION windlass.enqueue(
    job_type text,
    payload json DEFAULT '{}',
    queue text DEFAULT NULL,
    priority integer DEFAULT NULL,
    delay interval DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    expires_in interval DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    key text DEFAULT NULL,
    key_scope text DEFAULT 'while-live',
    on_conflict text DEFAULT 'keep',
    correlation_id text DEFAULT NULL,
    job_group text DEFAULT NULL,
    tags text[] DEFAULT NULL,
    label text DEFAULT NULL,
    timeout interval DEFAULT NULL,
    retry jsonb DEFAULT NULL,
    request_id uuid DEFAULT NULL,
    ordering_key text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $enqueue$
DECLARE
    one windlass.placed;
    words record;
BEGIN
    SELECT * INTO one FROM windlass.put_jobs(
        ARRAY[ROW (
            job_type, coalesce(payload, '{}'), queue, priority, delay, run_at, expires_in, expires_at, key,
            coalesce(key_scope, 'while-live'), coalesce(on_conflict, 'keep'), correlation_id, job_group, tags, label,
            timeout, retry, NULL, ordering_key
        )::windlass.new_job],
        request_id,
        NULL
    );
    IF one.refusal IS NOT NULL THEN
        SELECT * INTO words FROM windlass.words_of(one.refusal);
        RAISE EXCEPTION USING ERRCODE = words.code, MESSAGE = words.why, HINT = words.hint;
    END IF;
    RETURN one.id;
END
$enqueue$;

REVOKE EXECUTE ON FUNCTION windlass.enqueue FROM PUBLIC;
DO $grants$
DECLARE
    may record;
BEGIN
    FOR may IN
        SELECT f.who, f.is_grantable
        FROM json_to_recordset(current_setting('windlass_ordering_key.may_enqueue')::json) AS f (who text, is_grantable boolean)
    LOOP
        EXECUTE format(
            'GRANT EXECUTE ON FUNCTION windlass.enqueue TO %s%s', may.who, CASE WHEN may.is_grantable THEN ' WITH GRANT OPTION' END
        );
    END LOOP;
END
$grants$;

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
    IF gone.key IS NOT NULL THEN
        INSERT INTO windlass.ended_keys (job, job_type, key) VALUES (gone.id, gone.job_type, gone.key);
    END IF;
    RETURN true;
END
$complete$;
