-- What anybody may call in a transaction of their own: enqueue, enqueue_many and complete. They repeat in SQL what `accept`,
-- `resolve` and `settle` of windlass-core decide. So that the two cannot drift apart, the conformance suite runs through
-- them a second time, and every refusal is compared with core's words.
--
-- Whoever reads the time takes `present`, which is there for tests that move the clock, and the server's clock without it.
-- An argument and not a setting of the session: what a session keeps, a pooler hands on to somebody else. It is the clock of
-- the call and not the start of the transaction, which may have been open for an hour already.
--
-- The three run as the owner of the schema, so that an application that only puts jobs in needs no right on any table.
-- They fix the search path for all that they call: a setting for each function would double the cost of a call. So do
-- those of the planner, which must not depend on what it knows of tables that are empty in one minute and full in the next.

-- A new job, as far as its values could be read; else `unreadable` says why not.
CREATE TYPE windlass.new_job AS (
    job_type text,
    payload json,
    queue text,
    priority integer,
    delay interval,
    run_at timestamptz,
    expires_in interval,
    expires_at timestamptz,
    key text,
    key_scope text,
    on_conflict text,
    correlation_id text,
    job_group text,
    tags text[],
    label text,
    timeout interval,
    retry jsonb,
    unreadable text
);

-- What became of a new job: new, kept, replaced, revived or refused. `refusal` is core's Refusal as JSON.
CREATE TYPE windlass.placed AS (position integer, id bigint, answer text, refusal jsonb);

-- A type and its queue, as far as the door asks.
CREATE TYPE windlass.accept_rules AS (
    job_type text, queue text, priority smallint, max_attempts integer, capacity bigint, shut boolean
);

-- Keys of jobs that ended in somebody's own transaction. The key itself is left alone there, so that nobody who puts a job
-- in has to wait for that transaction to end; maintenance frees it after the commit. Until then it belongs to a job that has
-- ended, which is as good as free.
CREATE TABLE windlass.ended_keys (
    job bigint PRIMARY KEY,
    job_type text NOT NULL,
    key text NOT NULL
);

-- A value as it is shown in a refusal. One that is wrong because it is huge must not make the refusal huge.
CREATE FUNCTION windlass.shown(value text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $shown$
BEGIN
    RETURN coalesce(to_json(CASE WHEN length(value) > 40 THEN left(value, 40) || '...' ELSE value END)::text, 'nothing');
END
$shown$;

-- A span of time as text, or a number of seconds; null if it cannot be read. The handler of errors costs nothing unless
-- it is reached, and numbers never reach it: that is how our own client writes spans.
CREATE FUNCTION windlass.read_span(value text) RETURNS interval LANGUAGE plpgsql STABLE AS $read_span$
BEGIN
    IF value ~ '^-?[0-9]{1,20}(\.[0-9]{1,9})?$' THEN
        RETURN make_interval(secs => greatest(least(value::double precision, 1e11), -1e11));
    END IF;
    -- An array or an object is none, though the parser looks past brackets.
    IF value ~ '^\s*[[{]' THEN
        RETURN NULL;
    END IF;
    BEGIN
        RETURN value::interval;
    EXCEPTION WHEN data_exception THEN
        RETURN NULL;
    END;
END
$read_span$;

-- An instant as text, or seconds since the start of 1970; null if it cannot be read.
CREATE FUNCTION windlass.read_instant(value text) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $read_instant$
BEGIN
    IF value ~ '^-?[0-9]{1,20}(\.[0-9]{1,9})?$' THEN
        RETURN CASE
            WHEN abs(value::double precision) < 1e11 THEN to_timestamp(value::double precision)
            WHEN value LIKE '-%' THEN '-infinity'
            ELSE 'infinity'
        END;
    END IF;
    -- An array or an object is none, though the parser looks past brackets.
    IF value ~ '^\s*[[{]' THEN
        RETURN NULL;
    END IF;
    BEGIN
        RETURN value::timestamptz;
    EXCEPTION WHEN data_exception THEN
        RETURN NULL;
    END;
END
$read_instant$;

-- Whether JSON nests deeper than a payload may. Each round takes away the innermost brackets.
CREATE FUNCTION windlass.is_too_deep(body text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $is_too_deep$
DECLARE
    brackets text;
BEGIN
    brackets := regexp_replace(body, '"(\\.|[^"\\])*"|[^][{}"]+', '', 'g');
    FOR round IN 1..64 LOOP
        brackets := replace(replace(brackets, '[]', ''), '{}', '');
    END LOOP;
    RETURN brackets <> '';
END
$is_too_deep$;

-- What is wrong with the values of a new job, before anybody asks whether it is welcome; null if nothing is.
CREATE FUNCTION windlass.wrong_value(job windlass.new_job) RETURNS text LANGUAGE plpgsql STABLE AS $wrong_value$
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

-- A span as retry policies write it, in microseconds; null if it is none.
CREATE FUNCTION windlass.read_policy_span(value jsonb) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $read_policy_span$
DECLARE
    parts text[] := regexp_match(value #>> '{}', '^([0-9]{1,18})(us|ms|s|m|h|d)$');
BEGIN
    IF parts IS NULL OR jsonb_typeof(value) <> 'string' THEN
        RETURN NULL;
    END IF;
    RETURN parts[1]::numeric * CASE parts[2]
        WHEN 'us' THEN 1
        WHEN 'ms' THEN 1000
        WHEN 's' THEN 1000000
        WHEN 'm' THEN 60000000
        WHEN 'h' THEN 3600000000
        ELSE 86400000000
    END;
END
$read_policy_span$;

-- How many tries a retry policy allows, or what is wrong with it. Fields are as core writes them; what core could not
-- read back must not be stored.
CREATE FUNCTION windlass.check_retry(policy jsonb, OUT attempts integer, OUT why text) LANGUAGE plpgsql IMMUTABLE AS $check_retry$
DECLARE
    known text[];
    tiers jsonb := '[]';
    spans jsonb[];
    wrong text;
BEGIN
    known := CASE policy ->> 'policy'
        WHEN 'exponential' THEN '{policy,base,max,attempts}'
        WHEN 'backfill' THEN '{policy,base,max,attempts}'
        WHEN 'fibonacci' THEN '{policy,unit,attempts}'
        WHEN 'progressive' THEN '{policy,tiers}'
        WHEN 'fixed' THEN '{policy,every,attempts}'
        WHEN 'list' THEN '{policy,delays}'
        WHEN 'never' THEN '{policy}'
    END;
    IF known IS NULL THEN
        why := format(
            'expected `policy` out of exponential, backfill, fibonacci, progressive, fixed, list, never, got %s',
            windlass.shown(policy ->> 'policy')
        );
        RETURN;
    END IF;
    SELECT min(field) INTO wrong FROM jsonb_object_keys(policy) AS field WHERE field <> ALL (known);
    IF wrong IS NOT NULL THEN
        why := format('expected fields out of %s, got %s', array_to_string(known, ', '), windlass.shown(wrong));
    ELSIF policy ? 'attempts' AND (
        jsonb_typeof(policy -> 'attempts') <> 'number' OR policy ->> 'attempts' !~ '^[0-9]{1,4}$'
        OR (policy ->> 'attempts')::integer NOT BETWEEN 1 AND 1000
    ) THEN
        why := format('expected a retry policy with 1 to 1000 attempts, got %s', policy -> 'attempts');
    ELSIF policy ? 'delays' AND jsonb_typeof(policy -> 'delays') <> 'array'
        OR policy ? 'tiers' AND jsonb_typeof(policy -> 'tiers') <> 'array' THEN
        why := 'expected `delays` and `tiers` as arrays';
    ELSIF policy ->> 'policy' = 'list' AND NOT policy ? 'delays' OR policy ->> 'policy' = 'fixed' AND NOT policy ? 'every' THEN
        why := format('expected the field `%s`, got none', known[2]);
    ELSIF policy ? 'delays' AND jsonb_array_length(policy -> 'delays') >= 1000 THEN
        why := format('expected a retry policy with 1 to 1000 attempts, got %s', jsonb_array_length(policy -> 'delays'));
    END IF;
    IF why IS NOT NULL THEN
        RETURN;
    END IF;
    tiers := coalesce(policy -> 'tiers', '[]');
    spans := array_remove(ARRAY[policy -> 'base', policy -> 'max', policy -> 'unit', policy -> 'every'], NULL)
        || ARRAY (SELECT jsonb_array_elements(coalesce(policy -> 'delays', '[]')))
        || ARRAY (SELECT coalesce(tier -> 'interval', 'null') FROM jsonb_array_elements(tiers) AS tier);
    SELECT span INTO wrong
    FROM unnest(spans || ARRAY (SELECT coalesce(tier -> 'max_age', 'null') FROM jsonb_array_elements(tiers) AS tier)) AS span
    WHERE windlass.read_policy_span(span) IS NULL LIMIT 1;
    IF wrong IS NOT NULL THEN
        why := format('expected a span of time such as 250ms, 30s, 5m or 7d, got %s', wrong);
    ELSIF EXISTS (SELECT 1 FROM jsonb_array_elements(tiers) AS tier WHERE tier - '{max_age,interval}'::text[] <> '{}') THEN
        why := 'expected tiers with the fields max_age and interval, got others';
    ELSIF EXISTS (SELECT 1 FROM unnest(spans) AS span WHERE windlass.read_policy_span(span) > 315360000000000) THEN
        why := 'expected the delays of a retry policy of at most ten years';
    ELSIF policy ? 'tiers' AND tiers = '[]' THEN
        why := 'expected a progressive policy with at least one tier, got none';
    ELSIF EXISTS (
        SELECT 1 FROM (
            SELECT age, lag(age) OVER (ORDER BY place) AS before
            FROM jsonb_array_elements(tiers) WITH ORDINALITY AS t (tier, place)
            CROSS JOIN LATERAL windlass.read_policy_span(tier -> 'max_age') AS age
        ) AS ages WHERE age <= before
    ) THEN
        why := 'expected the tiers of a progressive policy from young to old, got a `max_age` that does not rise';
    END IF;
    attempts := CASE policy ->> 'policy'
        WHEN 'progressive' THEN 1000
        WHEN 'list' THEN jsonb_array_length(policy -> 'delays') + 1
        WHEN 'never' THEN 1
        WHEN 'fibonacci' THEN coalesce((policy ->> 'attempts')::integer, 20)
        ELSE coalesce((policy ->> 'attempts')::integer, 5)
    END;
END
$check_retry$;

-- The instant that a caller asked for; null if it lies too far away.
CREATE FUNCTION windlass.instant_of(span interval, instant timestamptz, at timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE AS $instant_of$
    -- In hours, since a day of the session's time zone may have 23.
    SELECT CASE
        WHEN span > interval '87600 hours' OR instant > at + interval '87600 hours' OR instant < to_timestamp(0) THEN NULL
        ELSE coalesce(instant, at + span, at)
    END
$instant_of$;

-- Why the options of a new job are refused; null if they are not.
CREATE FUNCTION windlass.refused_options(job windlass.new_job, at timestamptz) RETURNS jsonb LANGUAGE plpgsql STABLE AS $refused_options$
DECLARE
    why text;
BEGIN
    IF cardinality(job.tags) > 32 THEN
        RETURN jsonb_build_object('TooManyTags', jsonb_build_object('got', cardinality(job.tags)));
    ELSIF job.timeout < interval '1 microsecond' OR job.timeout > interval '30 days' THEN
        RETURN '"Timeout"';
    END IF;
    IF job.retry IS NOT NULL THEN
        why := (windlass.check_retry(job.retry)).why;
        IF why IS NOT NULL THEN
            RETURN jsonb_build_object('Retry', why);
        END IF;
    END IF;
    IF windlass.instant_of(job.delay, job.run_at, at) IS NULL
        OR windlass.instant_of(job.expires_in, job.expires_at, at) IS NULL THEN
        RETURN '"TooFar"';
    END IF;
    RETURN NULL;
END
$refused_options$;

-- The key's scope as JSON, as core writes it.
CREATE FUNCTION windlass.scope_of(key_scope text) RETURNS jsonb LANGUAGE plpgsql STABLE AS $scope_of$
BEGIN
    IF key_scope IN ('while-live', 'while-live-or-dead') THEN
        RETURN to_jsonb(key_scope);
    END IF;
    RETURN jsonb_build_object(
        'for', (extract(epoch FROM windlass.read_span(key_scope)) * 1000000)::numeric(30, 0) || 'us'
    );
END
$scope_of$;

-- The row of a new job, but for its number.
CREATE FUNCTION windlass.row_of(job windlass.new_job, door windlass.accept_rules, at timestamptz) RETURNS windlass.delayed_jobs
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
    made.correlation := job.correlation_id;
    made.job_group := job.job_group;
    made.max_attempts := door.max_attempts;
    IF cardinality(job.tags) > 0 THEN
        made.tags := to_json(job.tags);
    END IF;
    IF job.retry IS NOT NULL THEN
        made.max_attempts := (windlass.check_retry(job.retry)).attempts;
    END IF;
    IF job.label IS NOT NULL OR job.retry IS NOT NULL OR job.timeout IS NOT NULL OR job.key IS NOT NULL THEN
        options := jsonb_strip_nulls(jsonb_build_object(
            'label', lower(job.label),
            'retry', job.retry,
            'timeout_micros', (extract(epoch FROM job.timeout) * 1000000)::bigint,
            'scope', CASE WHEN job.key IS NOT NULL AND job.key_scope <> 'while-live' THEN windlass.scope_of(job.key_scope) END,
            'on_conflict', CASE WHEN job.key IS NOT NULL AND job.on_conflict <> 'keep' THEN job.on_conflict END
        ));
        made.options := nullif(options, '{}');
    END IF;
    RETURN made;
END
$row_of$;

-- How many jobs of a queue have not ended.
CREATE FUNCTION windlass.unfinished(name text) RETURNS bigint LANGUAGE plpgsql AS $unfinished$
BEGIN
    RETURN coalesce((SELECT sum(c.waiting + c.parked + c.running) FROM windlass.counts c WHERE c.queue = name), 0)
        + coalesce((SELECT sum(d.waiting + d.parked + d.running) FROM windlass.count_deltas d WHERE d.queue = name), 0);
END
$unfinished$;

-- Locks keys, in the order in which everybody locks them, and makes a row for each that has none.
CREATE FUNCTION windlass.take_keys(types text[], keys text[]) RETURNS void LANGUAGE plpgsql AS $take_keys$
BEGIN
    -- The update that never happens locks the row all the same. A statement that looks and one that locks would leave a
    -- gap in which the row can go, and with it the lock.
    INSERT INTO windlass.job_keys AS held (job_type, key)
    SELECT i.job_type, i.key FROM unnest(types, keys) AS i (job_type, key)
    GROUP BY 1, 2 ORDER BY i.job_type COLLATE "C", i.key COLLATE "C"
    ON CONFLICT (job_type, key) DO UPDATE SET job = held.job WHERE false;
END
$take_keys$;

-- What is to be done with a new job whose key somebody may hold, and who that is.
CREATE FUNCTION windlass.verdict(job windlass.new_job, at timestamptz, OUT answer text, OUT holder bigint) LANGUAGE plpgsql AS $verdict$
DECLARE
    stage text;
    scope text;
    until timestamptz;
BEGIN
    SELECT k.job, k.scope, k.until,
        CASE
            WHEN live.locked_by IS NOT NULL THEN 'running'
            WHEN live.id IS NOT NULL THEN 'waiting'
            WHEN letter.id IS NOT NULL THEN 'dead'
            ELSE 'ended'
        END
    INTO holder, scope, until, stage
    FROM windlass.job_keys k
    LEFT JOIN windlass.delayed_jobs live ON live.id = k.job
    LEFT JOIN windlass.delayed_jobs_dlq letter ON letter.id = k.job
    WHERE k.job_type = (verdict.job).job_type AND k.key = (verdict.job).key;
    answer := CASE
        WHEN holder IS NULL THEN 'new'
        WHEN stage = 'dead' AND scope <> '"while-live-or-dead"' AND coalesce(until <= at, true) THEN 'new'
        WHEN stage = 'ended' AND coalesce(until <= at, true) THEN 'new'
        WHEN stage = 'waiting' AND job.on_conflict = 'replace' THEN 'replaced'
        WHEN stage = 'dead' AND job.on_conflict = 'revive' THEN 'revived'
        ELSE 'kept'
    END;
END
$verdict$;

-- The same, under the lock of the key and, if it is to be replaced, of the job that holds it: that one may be claimed at
-- any moment, and then it is too late.
CREATE FUNCTION windlass.firm_verdict(job windlass.new_job, at timestamptz, OUT answer text, OUT holder bigint)
LANGUAGE plpgsql AS $firm_verdict$
BEGIN
    PERFORM windlass.take_keys(ARRAY[job.job_type], ARRAY[job.key]);
    LOOP
        SELECT v.answer, v.holder INTO answer, holder FROM windlass.verdict(job, at) AS v;
        EXIT WHEN answer <> 'replaced';
        PERFORM 1 FROM windlass.delayed_jobs d WHERE d.id = firm_verdict.holder AND d.locked_by IS NULL FOR UPDATE;
        EXIT WHEN FOUND;
    END LOOP;
END
$firm_verdict$;

-- Stores new jobs.
CREATE FUNCTION windlass.insert_jobs(made windlass.delayed_jobs[]) RETURNS void LANGUAGE plpgsql AS $insert_jobs$
BEGIN
    INSERT INTO windlass.delayed_jobs (
        id, scheduled_at, created_at, expires_at, max_attempts, priority, queue, job_type, payload, key,
        correlation, job_group, tags, options
    )
    SELECT m.id, m.scheduled_at, m.created_at, m.expires_at, m.max_attempts, m.priority, m.queue, m.job_type, m.payload,
        m.key, m.correlation, m.job_group, m.tags, m.options
    FROM unnest(made) AS m;
END
$insert_jobs$;

-- Gives a waiting job the payload, time, priority, expiry and label of a newcomer.
CREATE FUNCTION windlass.renew_job(holder bigint, made windlass.delayed_jobs) RETURNS void LANGUAGE plpgsql AS $renew_job$
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
END
$renew_job$;

-- Starts a dead letter over with fresh counters, and gives it its key again. It was started in time once, so it no longer
-- expires.
CREATE FUNCTION windlass.start_over(letter bigint, due timestamptz) RETURNS void LANGUAGE plpgsql AS $start_over$
DECLARE
    gone windlass.delayed_jobs_dlq;
BEGIN
    DELETE FROM windlass.delayed_jobs_dlq d WHERE d.id = letter RETURNING d.* INTO STRICT gone;
    INSERT INTO windlass.attempts (job, number, worker, started_at, ended_at, ending, error, output)
    SELECT gone.id, gone.attempts, gone.worker, gone.started_at, gone.ended_at, gone.ending, gone.attempt_error, gone.output
    WHERE gone.worker IS NOT NULL AND gone.started_at IS NOT NULL AND gone.ending IS NOT NULL;
    INSERT INTO windlass.delayed_jobs (
        id, scheduled_at, created_at, settled_by, max_attempts, priority, queue, job_type, payload, key, correlation,
        job_group, tags, options, last_error
    ) VALUES (
        gone.id, due, gone.created_at, gone.settled_by, gone.max_attempts, gone.priority, gone.queue, gone.job_type,
        gone.payload, gone.key, gone.correlation, gone.job_group, gone.tags, gone.options, gone.last_error
    );
    -- The key is held by this very letter already, with the scope and for the time that it was given then.
    INSERT INTO windlass.count_deltas (job_type, queue, minute, waiting, dead_letters, dead) VALUES
        (gone.job_type, gone.queue, floor(extract(epoch FROM due) / 60)::bigint, 1, 0, 0),
        (gone.job_type, gone.queue, NULL, 0, -1, -1);
END
$start_over$;

-- What an earlier call under this name was answered.
CREATE FUNCTION windlass.answered_before(request_id uuid, at timestamptz) RETURNS SETOF windlass.placed LANGUAGE plpgsql AS $answered_before$
DECLARE
    receipt windlass.receipts;
BEGIN
    SELECT * INTO receipt FROM windlass.receipts r
    WHERE r.request = request_id AND r.at > answered_before.at - interval '1 hour';
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'WL010', MESSAGE = 'this request was answered more than an hour ago',
            HINT = 'make a new request id';
    END IF;
    -- A gap stands for the next number.
    RETURN QUERY
    SELECT a.place::integer,
        coalesce(
            (SELECT f.value::bigint FROM jsonb_each_text(nullif(a.answer, 'null')) AS f WHERE f.key <> 'Refused'),
            CASE WHEN a.answer = 'null' THEN receipt.ids[count(*) FILTER (WHERE a.answer = 'null') OVER (ORDER BY a.place)] END
        ),
        coalesce((SELECT lower(key) FROM jsonb_object_keys(nullif(a.answer, 'null')) AS key), 'new'),
        a.answer -> 'Refused'
    FROM jsonb_array_elements(
        coalesce(receipt.answers::jsonb, (SELECT jsonb_agg(NULL::text) FROM unnest(receipt.ids)), '[]')
    ) WITH ORDINALITY AS a (answer, place);
END
$answered_before$;

-- Judges a new job in the order of core's `accept`. One that is wrong in several ways is refused for the first of them.
CREATE FUNCTION windlass.judge(job windlass.new_job, door windlass.accept_rules, unfinished bigint, at timestamptz)
RETURNS windlass.placed LANGUAGE plpgsql AS $judge$
DECLARE
    why text := windlass.wrong_value(job);
    one windlass.placed;
    is_full boolean := coalesce(unfinished >= door.capacity, false);
BEGIN
    one.answer := 'refused';
    IF why IS NOT NULL THEN
        one.refusal := jsonb_build_object('Malformed', jsonb_build_object('why', why));
    ELSIF door.job_type IS NULL THEN
        one.refusal := jsonb_build_object('UnknownType', jsonb_build_object('job_type', job.job_type));
    ELSIF lower(job.queue) <> door.queue THEN
        one.refusal := jsonb_build_object('OtherQueue', jsonb_build_object(
            'job_type', job.job_type, 'registered', door.queue, 'got', lower(job.queue)
        ));
    ELSIF door.shut THEN
        one.refusal := jsonb_build_object('QueueShut', jsonb_build_object('queue', door.queue));
    END IF;
    IF one.refusal IS NOT NULL THEN
        RETURN one;
    END IF;
    one.answer := 'new';
    IF job.key IS NOT NULL THEN
        SELECT v.answer, v.holder INTO one.answer, one.id FROM windlass.verdict(job, at) AS v;
    END IF;
    IF NOT (is_full AND one.answer = 'new') THEN
        one.refusal := windlass.refused_options(job, at);
        -- What is kept as things stand needs no lock.
        IF one.refusal IS NULL AND job.key IS NOT NULL AND one.answer <> 'kept' THEN
            SELECT v.answer, v.holder INTO one.answer, one.id FROM windlass.firm_verdict(job, at) AS v;
        END IF;
    END IF;
    IF one.refusal IS NULL AND is_full AND one.answer = 'new' THEN
        one.refusal := jsonb_build_object('QueueFull', jsonb_build_object('queue', door.queue, 'capacity', door.capacity));
    END IF;
    IF one.refusal IS NOT NULL THEN
        one.answer := 'refused';
        one.id := NULL;
    END IF;
    RETURN one;
END
$judge$;

-- Stores a new job that has a key, and gives it the key.
CREATE FUNCTION windlass.insert_keyed(made windlass.delayed_jobs, key_scope text) RETURNS void LANGUAGE plpgsql AS $insert_keyed$
DECLARE
    held_for jsonb := windlass.scope_of(key_scope);
    period interval := CASE WHEN held_for ? 'for' THEN windlass.read_span(key_scope) END;
BEGIN
    PERFORM windlass.insert_jobs(ARRAY[made]);
    UPDATE windlass.job_keys k
    SET job = made.id, scope = held_for,
        until = CASE WHEN period > interval '1000 years' THEN 'infinity' ELSE made.created_at + period END
    WHERE k.job_type = made.job_type AND k.key = made.key;
END
$insert_keyed$;

-- Opens the receipt of a call. False if there is one already; waits for whoever is about to leave it.
CREATE FUNCTION windlass.open_receipt(request_id uuid, at timestamptz) RETURNS boolean LANGUAGE plpgsql AS $open_receipt$
BEGIN
    INSERT INTO windlass.receipts AS r (request, at) VALUES (request_id, open_receipt.at)
    ON CONFLICT (request) DO UPDATE SET at = excluded.at, ids = NULL, answers = NULL
    WHERE r.at <= excluded.at - interval '1 hour';
    RETURN FOUND;
END
$open_receipt$;

-- Fills in a receipt: numbers if all jobs were new, and else every answer as core writes it.
CREATE FUNCTION windlass.close_receipt(request_id uuid, placed windlass.placed[]) RETURNS void LANGUAGE plpgsql AS $close_receipt$
BEGIN
    IF (SELECT coalesce(bool_and(p.answer = 'new'), true) FROM unnest(placed) AS p) THEN
        UPDATE windlass.receipts r SET ids = ARRAY (SELECT p.id FROM unnest(placed) AS p ORDER BY p.position)
        WHERE r.request = request_id;
        RETURN;
    END IF;
    UPDATE windlass.receipts r SET answers = (
        SELECT jsonb_agg(jsonb_build_object(initcap(p.answer), coalesce(p.refusal, to_jsonb(p.id))) ORDER BY p.position)
        FROM unnest(placed) AS p
    )
    WHERE r.request = request_id;
END
$close_receipt$;

-- Puts new jobs in, each judged by itself, knowing what those before it did. Keys are locked before jobs, in order.
CREATE FUNCTION windlass.put_jobs(jobs windlass.new_job[], request_id uuid, present timestamptz)
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
                'job_type', made.job_type, 'queue', made.queue, 'minute', floor(extract(epoch FROM made.scheduled_at) / 60)
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
    INSERT INTO windlass.count_deltas (job_type, queue, minute, waiting, enqueued)
    SELECT c ->> 'job_type', c ->> 'queue', (c ->> 'minute')::bigint, count(*), count(*)
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

-- A refusal in core's words, with a code and with what to do.
CREATE FUNCTION windlass.words_of(refusal jsonb, OUT code text, OUT why text, OUT hint text) LANGUAGE plpgsql STABLE AS $words_of$
DECLARE
    kind text;
    about jsonb;
BEGIN
    IF jsonb_typeof(refusal) = 'string' THEN
        kind := refusal #>> '{}';
    ELSE
        SELECT f.key, f.value INTO kind, about FROM jsonb_each(refusal) AS f LIMIT 1;
    END IF;
    CASE kind
        WHEN 'UnknownType' THEN
            code := 'WL001';
            why := format('expected a registered job type, got %s', about ->> 'job_type');
            hint := format(
                'workers register theirs at start, or run `windlass type register %s --queue QUEUE`', about ->> 'job_type'
            );
        WHEN 'OtherQueue' THEN
            code := 'WL002';
            why := format(
                'expected job type %s in its queue %s, got queue %s', about ->> 'job_type', about ->> 'registered', about ->> 'got'
            );
            hint := 'leave `queue` out: a type has one queue';
        WHEN 'QueueShut' THEN
            code := 'WL003';
            why := format('queue %s is shut: it is being drained and takes no new jobs', about ->> 'queue');
            hint := 'try again when it is open';
        WHEN 'QueueFull' THEN
            code := 'WL004';
            why := format('queue %s is full: it takes %s unfinished jobs', about ->> 'queue', about ->> 'capacity');
            hint := 'try again later or raise its `capacity`';
        WHEN 'TooFar' THEN
            code := 'WL005';
            why := 'expected a time at most ten years ahead and not before 1970';
            hint := 'check delay, run_at, expires_in and expires_at';
        WHEN 'TooManyTags' THEN
            code := 'WL006';
            why := format('expected at most 32 tags, got %s', about ->> 'got');
            hint := 'leave some out, or put them in the payload';
        WHEN 'Timeout' THEN
            code := 'WL007';
            why := 'expected a time-out between 1 microsecond and 30 days';
            hint := 'leave `timeout` out for that of the type';
        WHEN 'Retry' THEN
            code := 'WL008';
            why := format('the retry policy of the job is wrong: %s', about #>> '{}');
            hint := 'leave `retry` out for that of the type, or see docs/retries.md';
        ELSE
            code := 'WL009';
            why := coalesce(about ->> 'why', refusal::text);
            hint := 'see docs/engines/postgres.md for what each argument takes';
    END CASE;
END
$words_of$;

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
    request_id uuid DEFAULT NULL
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
            timeout, retry, NULL
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

-- A job out of a list, with the fields of enqueue. Whatever cannot be read is that job's own fault and nobody else's, so
-- nothing is raised here.
CREATE FUNCTION windlass.read_job(job json) RETURNS windlass.new_job LANGUAGE plpgsql STABLE AS $read_job$
DECLARE
    known CONSTANT text[] := '{job_type,payload,queue,priority,delay,run_at,expires_in,expires_at,key,key_scope,on_conflict,correlation_id,job_group,tags,label,timeout,retry}';
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
        key_scope text, on_conflict text, correlation_id text, job_group text, tags json, label text, timeout text, retry jsonb
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

CREATE FUNCTION windlass.no_span(name text, value text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $no_span$
BEGIN
    RETURN format(
        'expected `%s` as a span such as 5 minutes, or as a number of seconds, got %s', name, windlass.shown(value)
    );
END
$no_span$;

CREATE FUNCTION windlass.no_instant(name text, value text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $no_instant$
BEGIN
    RETURN format(
        'expected `%s` as an instant such as 2026-11-15T20:30:00Z, or as seconds since 1970, got %s', name, windlass.shown(value)
    );
END
$no_instant$;

-- Puts many jobs in: an array of objects whose fields are the arguments of enqueue. Each is judged by itself; a refusal
-- is an answer and spoils no other.
CREATE FUNCTION windlass.enqueue_many(jobs json, request_id uuid DEFAULT NULL, present timestamptz DEFAULT NULL)
RETURNS TABLE ("position" integer, id bigint, answer text, code text, why text, refusal jsonb)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $enqueue_many$
BEGIN
    IF json_typeof(jobs) IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION USING ERRCODE = 'WL010', MESSAGE = 'expected an array of jobs',
            HINT = 'put one job in with enqueue, or put it in brackets';
    ELSIF json_array_length(jobs) > 1000 THEN
        RAISE EXCEPTION USING ERRCODE = 'WL010',
            MESSAGE = format('expected at most 1000 jobs in one request, got %s', json_array_length(jobs)),
            HINT = 'send them in parts';
    END IF;
    RETURN QUERY
    SELECT p.position, p.id, p.answer, w.code, w.why || '; ' || w.hint, p.refusal
    FROM windlass.put_jobs(
        ARRAY (SELECT windlass.read_job(j.job) FROM json_array_elements(jobs) WITH ORDINALITY AS j (job, place) ORDER BY j.place),
        request_id,
        present
    ) AS p
    LEFT JOIN LATERAL windlass.words_of(p.refusal) AS w ON p.refusal IS NOT NULL
    ORDER BY p.position;
END
$enqueue_many$;

-- Ends a job as succeeded, or as cancelled if somebody asked it to stop, if the claim still holds. False if it does not:
-- then nothing is written, and whatever else the transaction wrote should be rolled back. The attempt began with its claim.
CREATE FUNCTION windlass.complete(job bigint, token uuid, present timestamptz DEFAULT NULL) RETURNS boolean
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
        RETURN windlass.was_settled(complete.job, complete.token);
    END IF;
    is_done := gone.cancel_requested IS NULL;
    SELECT t.retention_days INTO retention FROM windlass.job_types t WHERE t.name = gone.job_type;
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
    IF gone.key IS NOT NULL THEN
        INSERT INTO windlass.ended_keys (job, job_type, key) VALUES (gone.id, gone.job_type, gone.key);
    END IF;
    RETURN true;
END
$complete$;

-- Whether this claim was settled before: its token is still with the job, wherever it is.
CREATE FUNCTION windlass.was_settled(settled bigint, by_token uuid) RETURNS boolean LANGUAGE plpgsql AS $was_settled$
BEGIN
    RETURN EXISTS (SELECT 1 FROM windlass.delayed_jobs j WHERE j.id = settled AND j.settled_by = by_token)
        OR EXISTS (SELECT 1 FROM windlass.job_history h WHERE h.id = settled AND h.settled_by = by_token)
        OR EXISTS (SELECT 1 FROM windlass.delayed_jobs_dlq d WHERE d.id = settled AND d.settled_by = by_token)
        OR EXISTS (SELECT 1 FROM windlass.job_traces t WHERE t.settled_by = by_token AND settled = ANY (t.jobs));
END
$was_settled$;

-- They act with the owner's rights, so the owner says who may call them.
REVOKE EXECUTE ON FUNCTION windlass.enqueue, windlass.enqueue_many, windlass.complete FROM PUBLIC;
