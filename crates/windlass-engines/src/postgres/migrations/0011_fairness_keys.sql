-- FairnessKeys: among the due jobs of a queue and a priority, those for whom the work is done take turns. The name is among the options,
-- as an ordering key is; here it is for the order. Running jobs stay in the index, as in that of claims, so a claim writes into neither.
-- Names are compared byte by byte, as programs do.
--
-- Since when a queue has jobs with fairness keys is told by the queue, so that everybody knows who knows the queues: claims take turns
-- there and nowhere else, and jobs without a fairness key come in under the empty name, which is one line like any other. What
-- came in before has none; claims look for it among the first.
ALTER TABLE windlass.delayed_jobs ADD COLUMN fairness_key text COLLATE "C";
CREATE INDEX delayed_jobs_fairness_keys ON windlass.delayed_jobs (queue, priority, fairness_key, scheduled_at, id)
    WHERE fairness_key IS NOT NULL AND gate IS NULL;
ALTER TABLE windlass.queues ADD COLUMN fairness_keys_since timestamptz;

-- What follows is as before, but for `fairness_key`.
ALTER TYPE windlass.new_job ADD ATTRIBUTE fairness_key text;

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
    ELSIF octet_length(job.fairness_key) NOT BETWEEN 1 AND 256 OR job.fairness_key ~ control THEN
        RETURN format(printable, 'a fairness_key''s name', 256, windlass.shown(job.fairness_key));
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
    made.fairness_key := job.fairness_key;
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
        OR job.ordering_key IS NOT NULL OR job.fairness_key IS NOT NULL THEN
        options := jsonb_strip_nulls(jsonb_build_object(
            'label', lower(job.label),
            'retry', job.retry,
            'timeout_micros', (extract(epoch FROM job.timeout) * 1000000)::bigint,
            'scope', CASE WHEN job.key IS NOT NULL AND job.key_scope <> 'while-live' THEN windlass.scope_of(job.key_scope) END,
            'on_conflict', CASE WHEN job.key IS NOT NULL AND job.on_conflict <> 'keep' THEN job.on_conflict END,
            'ordering_key', job.ordering_key,
            'fairness_key', job.fairness_key
        ));
        made.options := nullif(options, '{}');
    END IF;
    RETURN made;
END
$row_of$;

-- Stores new jobs. Those without a fairness key have the empty one where others have fairness keys.
CREATE OR REPLACE FUNCTION windlass.insert_jobs(made windlass.delayed_jobs[]) RETURNS void LANGUAGE plpgsql AS $insert_jobs$
BEGIN
    INSERT INTO windlass.delayed_jobs (
        id, scheduled_at, created_at, expires_at, max_attempts, priority, queue, job_type, payload, key,
        correlation, job_group, tags, options, ordering_key, gate, fairness_key
    )
    SELECT m.id, m.scheduled_at, m.created_at, m.expires_at, m.max_attempts, m.priority, m.queue, m.job_type, m.payload,
        m.key, m.correlation, m.job_group, m.tags, m.options, m.ordering_key, m.gate,
        coalesce(m.fairness_key, CASE WHEN q.fairness_keys_since IS NOT NULL THEN '' END)
    FROM unnest(made) AS m LEFT JOIN windlass.queues q ON q.name = m.queue;
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
        job_group, tags, options, last_error, ordering_key, gate, fairness_key
    ) VALUES (
        gone.id, due, gone.created_at, gone.settled_by, gone.max_attempts, gone.priority, gone.queue, gone.job_type,
        gone.payload, gone.key, gone.correlation, gone.job_group, gone.tags, gone.options, gone.last_error,
        of_ordering_key, 'ordering_key:' || gone.job_type || ':' || of_ordering_key, gone.options::jsonb ->> 'fairness_key'
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

-- A job out of a list, with the fields of enqueue. Whatever cannot be read is that job's own fault and nobody else's, so
-- nothing is raised here.
CREATE OR REPLACE FUNCTION windlass.read_job(job json) RETURNS windlass.new_job LANGUAGE plpgsql STABLE AS $read_job$
DECLARE
    known CONSTANT text[] := '{job_type,payload,queue,priority,delay,run_at,expires_in,expires_at,key,key_scope,on_conflict,correlation_id,job_group,tags,label,timeout,retry,ordering_key,fairness_key}';
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
        ordering_key text, fairness_key text
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
    made.fairness_key := field.fairness_key;
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
SELECT set_config('windlass_fairness_keys.may_enqueue', coalesce(json_agg(json_build_object(
    'who', CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END, 'is_grantable', a.is_grantable
))::text, '[]'), true)
FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) AS a LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE p.oid = 'windlass.enqueue(text, json, text, integer, interval, timestamptz, interval, timestamptz, text, text, text, text, text, text[], text, interval, jsonb, uuid, text)'::regprocedure
    AND a.privilege_type = 'EXECUTE' AND a.grantee <> p.proowner;
DROP FUNCTION windlass.enqueue(text, json, text, integer, interval, timestamptz, interval, timestamptz, text, text, text, text, text, text[], text, interval, jsonb, uuid, text);

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
    ordering_key text DEFAULT NULL,
    fairness_key text DEFAULT NULL
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
            timeout, retry, NULL, ordering_key, fairness_key
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
        FROM json_to_recordset(current_setting('windlass_fairness_keys.may_enqueue')::json) AS f (who text, is_grantable boolean)
    LOOP
        EXECUTE format(
            'GRANT EXECUTE ON FUNCTION windlass.enqueue TO %s%s', may.who, CASE WHEN may.is_grantable THEN ' WITH GRANT OPTION' END
        );
    END LOOP;
END
$grants$;
