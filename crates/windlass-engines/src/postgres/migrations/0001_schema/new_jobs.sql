-- Functions for callers' transactions, first part: how a new job is read and checked.
--
-- An application may call enqueue, enqueue_many and complete in transactions of its own. They repeat in SQL
-- what `accept`, `resolve` and `settle` of windlass-core decide. So that the two cannot drift apart, the
-- conformance suite runs through them a second time, and every refusal is compared with core's message.
--
-- Every function that reads the time takes `present`, which is there for tests that move the clock; without
-- it, the server's clock counts. It is an argument and not a setting of the session, because a pooler hands
-- the settings of a session on to another client. The clock is read at the call and not at the start of the
-- transaction, which may have been open for an hour already.
--
-- The three run as the owner of the schema, so that an application that only enqueues jobs needs no right
-- on any table. They fix the search path for all functions that they call: a setting for each function
-- would double the cost of a call. The same holds for the planner's settings, which must not depend on
-- statistics of tables that are empty in one minute and full in the next.

-- A new job, as far as its values could be read; otherwise `unreadable` says why not.
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
    ordering_key text,
    fairness_key text,
    caused_by text,
    trace_context text,
    unreadable text
);

-- A value as it is shown in a refusal. A value that is wrong because it is huge must not make the refusal
-- huge.
CREATE FUNCTION windlass.shown(value text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $shown$
BEGIN
    RETURN coalesce(
        to_json(CASE WHEN length(value) > 40 THEN left(value, 40) || '...' ELSE value END)::text, 'nothing'
    );
END
$shown$;

-- A span of time as text, or a number of seconds; null if it cannot be read. The exception handler costs
-- nothing unless it is reached, and numbers never reach it: our own client writes spans as numbers.
CREATE FUNCTION windlass.read_span(value text) RETURNS interval LANGUAGE plpgsql STABLE AS $read_span$
BEGIN
    IF value ~ '^-?[0-9]{1,20}(\.[0-9]{1,9})?$' THEN
        RETURN make_interval(secs => greatest(least(value::double precision, 1e11), -1e11));
    END IF;
    -- An array or an object is no span, though the parser accepts brackets.
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
CREATE FUNCTION windlass.read_instant(value text) RETURNS timestamptz
LANGUAGE plpgsql STABLE AS $read_instant$
BEGIN
    IF value ~ '^-?[0-9]{1,20}(\.[0-9]{1,9})?$' THEN
        RETURN CASE
            WHEN abs(value::double precision) < 1e11 THEN to_timestamp(value::double precision)
            WHEN value LIKE '-%' THEN '-infinity'
            ELSE 'infinity'
        END;
    END IF;
    -- An array or an object is no instant, though the parser accepts brackets.
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

-- Returns whether JSON nests deeper than a payload may. Each round removes the innermost brackets.
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

-- Returns whether a text is not of 1 to `at_most` bytes, or has control characters. Null if the text is
-- null.
CREATE FUNCTION windlass.is_unprintable(value text, at_most integer) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $is_unprintable$
    SELECT octet_length(value) NOT BETWEEN 1 AND at_most OR value ~ '[\u0001-\u001f\u007f-\u009f]'
$is_unprintable$;

-- Returns what is wrong with the values of a new job, before its type and queue are read; null if nothing
-- is.
CREATE FUNCTION windlass.wrong_value(job windlass.new_job) RETURNS text
LANGUAGE plpgsql STABLE AS $wrong_value$
DECLARE
    plain CONSTANT text := '^[A-Za-z0-9_.-]{1,64}$';
    printable CONSTANT text := 'expected %s of 1 to %s bytes without control characters, got %s';
    body text := job.payload::text;
    tag text;
BEGIN
    IF job.unreadable IS NOT NULL THEN
        RETURN job.unreadable;
    ELSIF job.job_type IS NULL OR job.job_type !~ plain THEN
        RETURN format(
            'expected a job type''s name of 1 to 64 characters out of A-Z a-z 0-9 _ . -, got %s',
            windlass.shown(job.job_type)
        );
    ELSIF job.queue !~ plain THEN
        RETURN format(
            'expected a queue name of 1 to 64 characters out of a-z 0-9 _ . -, got %s', windlass.shown(job.queue)
        );
    ELSIF octet_length(body) > 1048576 THEN
        RETURN format(
            'expected a payload of at most 1048576 bytes, got %s; '
            'keep big data elsewhere and put a reference to it in the job',
            octet_length(body)
        );
    ELSIF strpos(body, '\u0000') > 0 THEN
        RETURN 'expected a payload without NUL characters, got one';
    -- Most payloads have fewer brackets in all than would be too deep, including those in strings.
    ELSIF length(body) - length(translate(body, '[{', '')) > 64 AND windlass.is_too_deep(body) THEN
        RETURN 'expected a payload of at most 64 levels, got more';
    ELSIF job.priority NOT BETWEEN 0 AND 10 THEN
        RETURN format('expected a priority from 0 (most urgent) to 10, got %s', job.priority);
    ELSIF job.label !~ plain THEN
        RETURN format(
            'expected a priority label of 1 to 64 characters out of a-z 0-9 _ . -, got %s', windlass.shown(job.label)
        );
    ELSIF windlass.is_unprintable(job.correlation_id, 256) THEN
        RETURN format(printable, 'a correlation id', 256, windlass.shown(job.correlation_id));
    ELSIF windlass.is_unprintable(job.caused_by, 256) THEN
        RETURN format(printable, 'a cause', 256, windlass.shown(job.caused_by));
    ELSIF job.trace_context !~ '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$' THEN
        RETURN format(
            'expected a trace context of 55 characters as in the W3C header traceparent, got %s',
            windlass.shown(job.trace_context)
        );
    ELSIF windlass.is_unprintable(job.job_group, 256) THEN
        RETURN format(printable, 'a group''s name', 256, windlass.shown(job.job_group));
    ELSIF windlass.is_unprintable(job.ordering_key, 256) THEN
        RETURN format(printable, 'an ordering key', 256, windlass.shown(job.ordering_key));
    ELSIF windlass.is_unprintable(job.fairness_key, 256) THEN
        RETURN format(printable, 'a fairness key', 256, windlass.shown(job.fairness_key));
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
        IF windlass.is_unprintable(job.key, 256) THEN
            RETURN format(printable, 'a key', 256, windlass.shown(job.key));
        ELSIF job.on_conflict NOT IN ('keep', 'replace', 'revive') THEN
            RETURN format(
                'expected `on_conflict` out of keep, replace, revive, got %s', windlass.shown(job.on_conflict)
            );
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
            IF windlass.is_unprintable(coalesce(tag, ''), 64) THEN
                RETURN format(printable, 'a tag', 64, windlass.shown(tag));
            END IF;
        END LOOP;
    END IF;
    RETURN NULL;
END
$wrong_value$;

-- Reads a span as retry policies write it, in microseconds; null if it is no span.
CREATE FUNCTION windlass.read_policy_span(value jsonb) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE AS $read_policy_span$
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

-- Returns how many attempts a retry policy allows, or what is wrong with it. Fields are in core's format: a
-- policy that core could not read back must not be stored.
CREATE FUNCTION windlass.check_retry(policy jsonb, OUT attempts integer, OUT why text)
LANGUAGE plpgsql IMMUTABLE AS $check_retry$
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
    ELSIF policy ->> 'policy' = 'list' AND NOT policy ? 'delays'
        OR policy ->> 'policy' = 'fixed' AND NOT policy ? 'every' THEN
        why := format('expected the field `%s`, got none', known[2]);
    ELSIF policy ? 'delays' AND jsonb_array_length(policy -> 'delays') >= 1000 THEN
        why := format(
            'expected a retry policy with 1 to 1000 attempts, got %s', jsonb_array_length(policy -> 'delays')
        );
    END IF;
    IF why IS NOT NULL THEN
        RETURN;
    END IF;
    tiers := coalesce(policy -> 'tiers', '[]');
    spans := array_remove(ARRAY[policy -> 'base', policy -> 'max', policy -> 'unit', policy -> 'every'], NULL)
        || ARRAY (SELECT jsonb_array_elements(coalesce(policy -> 'delays', '[]')))
        || ARRAY (SELECT coalesce(tier -> 'interval', 'null') FROM jsonb_array_elements(tiers) AS tier);
    SELECT span INTO wrong
    FROM unnest(
        spans || ARRAY (SELECT coalesce(tier -> 'max_age', 'null') FROM jsonb_array_elements(tiers) AS tier)
    ) AS span
    WHERE windlass.read_policy_span(span) IS NULL LIMIT 1;
    IF wrong IS NOT NULL THEN
        why := format('expected a span of time such as 250ms, 30s, 5m or 7d, got %s', wrong);
    ELSIF EXISTS (
        SELECT 1 FROM jsonb_array_elements(tiers) AS tier WHERE tier - '{max_age,interval}'::text[] <> '{}'
    ) THEN
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

-- Returns the instant that a caller requested; null if it lies too far away.
CREATE FUNCTION windlass.instant_of(span interval, instant timestamptz, at timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE AS $instant_of$
    -- In hours, since a day of the session's time zone may have 23.
    SELECT CASE
        WHEN span > interval '87600 hours' OR instant > at + interval '87600 hours' OR instant < to_timestamp(0)
        THEN NULL
        ELSE coalesce(instant, at + span, at)
    END
$instant_of$;

-- Why the options of a new job are refused; null if they are not.
CREATE FUNCTION windlass.refused_options(job windlass.new_job, at timestamptz) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $refused_options$
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

-- The scope of a key as JSON, in core's format.
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

-- The message for a field that is no span.
CREATE FUNCTION windlass.no_span(name text, value text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $no_span$
BEGIN
    RETURN format(
        'expected `%s` as a span such as 5 minutes, or as a number of seconds, got %s', name, windlass.shown(value)
    );
END
$no_span$;

-- The message for a field that is no instant.
CREATE FUNCTION windlass.no_instant(name text, value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $no_instant$
BEGIN
    RETURN format(
        'expected `%s` as an instant such as 2026-11-15T20:30:00Z, or as seconds since 1970, got %s',
        name, windlass.shown(value)
    );
END
$no_instant$;

-- Reads a job of a list, with the fields of enqueue. A job that cannot be read spoils no other job of the
-- list, so nothing is raised here.
CREATE FUNCTION windlass.read_job(job json) RETURNS windlass.new_job LANGUAGE plpgsql STABLE AS $read_job$
DECLARE
    known CONSTANT text[] := '{job_type,payload,queue,priority,delay,run_at,expires_in,expires_at,key,key_scope,'
        'on_conflict,correlation_id,job_group,tags,label,timeout,retry,ordering_key,fairness_key,'
        'caused_by,trace_context}';
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
        key_scope text, on_conflict text, correlation_id text, job_group text, tags json, label text, timeout text,
        retry jsonb, ordering_key text, fairness_key text, caused_by text, trace_context text
    );
    made.job_type := field.job_type;
    -- Not as a column of the record, which would read a payload of null as no payload.
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
    made.caused_by := field.caused_by;
    made.trace_context := field.trace_context;
    made.timeout := windlass.read_span(field.timeout);
    made.retry := field.retry;
    IF json_typeof(field.tags) = 'array' THEN
        made.tags := ARRAY (SELECT json_array_elements_text(field.tags));
    END IF;
    made.unreadable := CASE
        WHEN odd IS NOT NULL
            THEN format('expected fields out of %s, got %s', array_to_string(known, ', '), windlass.shown(odd))
        WHEN field.priority IS NOT NULL AND made.priority IS NULL
            THEN format('expected a priority from 0 (most urgent) to 10, got %s', windlass.shown(field.priority))
        WHEN field.tags IS NOT NULL AND made.tags IS NULL THEN 'expected `tags` as an array of texts'
        WHEN field.delay IS NOT NULL AND made.delay IS NULL THEN windlass.no_span('delay', field.delay)
        WHEN field.expires_in IS NOT NULL AND made.expires_in IS NULL
            THEN windlass.no_span('expires_in', field.expires_in)
        WHEN field.timeout IS NOT NULL AND made.timeout IS NULL THEN windlass.no_span('timeout', field.timeout)
        WHEN field.run_at IS NOT NULL AND made.run_at IS NULL THEN windlass.no_instant('run_at', field.run_at)
        WHEN field.expires_at IS NOT NULL AND made.expires_at IS NULL
            THEN windlass.no_instant('expires_at', field.expires_at)
    END;
    RETURN made;
END
$read_job$;
