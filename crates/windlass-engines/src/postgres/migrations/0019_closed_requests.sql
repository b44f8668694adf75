-- A caller who asks what became of a request that did not arrive closes it: its receipt has no answers, and
-- it stores nothing.
-- A dead letter that its key revives takes a place in its queue, like a new job: those that follow it in the
-- batch have one less.

-- A refusal in core's words, with a code and with what to do.
CREATE OR REPLACE FUNCTION windlass.words_of(refusal jsonb, OUT code text, OUT why text, OUT hint text) LANGUAGE plpgsql STABLE AS $words_of$
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
        WHEN 'RequestClosed' THEN
            code := 'WL011';
            why := 'this request was asked about before it arrived, so it stores nothing';
            hint := 'make a new request id';
        ELSE
            code := 'WL009';
            why := coalesce(about ->> 'why', refusal::text);
            hint := 'see docs/engines/postgres.md for what each argument takes';
    END CASE;
END
$words_of$;

-- Puts new jobs in, each judged by itself, knowing what those before it did. Keys are locked before jobs, in
-- order.
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
        -- A receipt without answers closes the request.
        IF NOT FOUND THEN
            RETURN QUERY SELECT n, NULL::bigint, 'refused'::text, '"RequestClosed"'::jsonb
            FROM generate_series(1, cardinality(jobs)) AS n;
        END IF;
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
        IF one.answer IN ('new', 'revived') AND depths ? door.queue THEN
            depths := depths || jsonb_build_object(door.queue, (depths ->> door.queue)::bigint + 1);
        END IF;
        IF one.answer IN ('new', 'replaced', 'revived') THEN
            -- The call may have waited for the key until the job before this one ended: this one is created after
            -- that end.
            IF new_one.key IS NOT NULL THEN
                at := greatest(at, coalesce(present, clock_timestamp()));
            END IF;
            made := windlass.row_of(new_one, door, at);
        END IF;
        IF one.answer = 'new' THEN
            made.id := nextval('windlass.job_ids');
            one.id := made.id;
            counted := counted || jsonb_build_object(
                'job_type', made.job_type, 'queue', made.queue, 'minute', CASE WHEN made.ordering_key IS NULL THEN floor(extract(epoch FROM made.scheduled_at) / 60) END
            );
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
