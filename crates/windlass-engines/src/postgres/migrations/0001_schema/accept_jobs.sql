-- Functions for callers' transactions, second part: how checked jobs are stored, under which keys and
-- receipts.

-- The outcome of a new job: new, duplicate, replaced, revived or refused. `refusal` is core's Refusal as
-- JSON.
CREATE TYPE windlass.enqueue_answer AS (position integer, id bigint, answer text, refusal jsonb);

-- A type and its queue, as far as the decision to accept a job needs them.
CREATE TYPE windlass.accept_rules AS (
    job_type text, queue text, priority smallint, max_attempts integer, capacity bigint, shut boolean
);

-- The row of a new job, without its id.
CREATE FUNCTION windlass.row_of(job windlass.new_job, rules windlass.accept_rules, at timestamptz) RETURNS windlass.delayed_jobs
LANGUAGE plpgsql STABLE AS $row_of$
DECLARE
    made windlass.delayed_jobs;
    options jsonb;
BEGIN
    made.queue := rules.queue;
    made.job_type := job.job_type;
    made.payload := job.payload;
    made.priority := coalesce(job.priority, rules.priority);
    made.created_at := at;
    made.scheduled_at := windlass.instant_of(job.delay, job.run_at, at);
    IF job.expires_in IS NOT NULL OR job.expires_at IS NOT NULL THEN
        made.expires_at := windlass.instant_of(job.expires_in, job.expires_at, at);
    END IF;
    made.key := job.key;
    IF job.ordering_key IS NOT NULL THEN
        made.ordering_key := job.ordering_key;
        made.gate := windlass.ordering_key_gate(job.job_type, job.ordering_key);
    END IF;
    made.fairness_key := job.fairness_key;
    made.correlation := job.correlation_id;
    made.job_group := job.job_group;
    made.max_attempts := rules.max_attempts;
    IF cardinality(job.tags) > 0 THEN
        made.tags := to_json(job.tags);
    END IF;
    IF job.retry IS NOT NULL THEN
        made.max_attempts := (windlass.check_retry(job.retry)).attempts;
    END IF;
    IF num_nonnulls(
        job.label, job.retry, job.timeout, job.key, job.ordering_key, job.fairness_key, job.caused_by, job.trace_context
    ) > 0 THEN
        options := jsonb_strip_nulls(jsonb_build_object(
            'label', lower(job.label),
            'retry', job.retry,
            'timeout_micros', (extract(epoch FROM job.timeout) * 1000000)::bigint,
            'scope', CASE
                WHEN job.key IS NOT NULL AND job.key_scope <> 'while-live' THEN windlass.scope_of(job.key_scope)
            END,
            'on_conflict', CASE WHEN job.key IS NOT NULL AND job.on_conflict <> 'keep' THEN job.on_conflict END,
            'ordering_key', job.ordering_key,
            'fairness_key', job.fairness_key,
            'caused_by', job.caused_by,
            'trace_context', job.trace_context
        ));
        made.options := nullif(options, '{}');
    END IF;
    RETURN made;
END
$row_of$;

-- Returns how many jobs of a queue have not ended.
CREATE FUNCTION windlass.unfinished(name text) RETURNS bigint LANGUAGE plpgsql AS $unfinished$
BEGIN
    RETURN coalesce((SELECT sum(c.waiting + c.parked + c.running) FROM windlass.counts c WHERE c.queue = name), 0)
        + coalesce((SELECT sum(d.waiting + d.parked + d.running) FROM windlass.count_deltas d WHERE d.queue = name), 0);
END
$unfinished$;

-- Locks keys, in the order in which all sessions lock them, and inserts a row for each that has none.
CREATE FUNCTION windlass.take_keys(types text[], keys text[]) RETURNS void LANGUAGE plpgsql AS $take_keys$
BEGIN
    -- The update, which never changes a row, locks it all the same. With one statement that reads and one
    -- that locks, the row could be deleted in between, and the lock with it.
    INSERT INTO windlass.job_keys AS held (job_type, key)
    SELECT i.job_type, i.key FROM unnest(types, keys) AS i (job_type, key)
    GROUP BY 1, 2 ORDER BY i.job_type COLLATE "C", i.key COLLATE "C"
    ON CONFLICT (job_type, key) DO UPDATE SET job = held.job WHERE false;
END
$take_keys$;

-- Decides what to do with a new job whose key another job may hold, and returns the holder.
CREATE FUNCTION windlass.verdict(job windlass.new_job, at timestamptz, OUT answer text, OUT holder bigint)
LANGUAGE plpgsql AS $verdict$
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
        ELSE 'duplicate'
    END;
END
$verdict$;

-- Decides as `verdict` does, under the lock of the key and, if the holder is to be replaced, of its row:
-- the holder may be claimed at any moment, and then it is too late.
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

-- Stores new jobs. Jobs without a fairness key get the empty one where other jobs have fairness keys.
CREATE FUNCTION windlass.insert_jobs(made windlass.delayed_jobs[]) RETURNS void
LANGUAGE plpgsql AS $insert_jobs$
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

-- Stores a new job that has a key, and gives it the key.
CREATE FUNCTION windlass.insert_keyed(made windlass.delayed_jobs, key_scope text) RETURNS void
LANGUAGE plpgsql AS $insert_keyed$
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

-- Gives a waiting job the payload, time, priority, expiry and label of a new one.
CREATE FUNCTION windlass.renew_job(holder bigint, made windlass.delayed_jobs) RETURNS void
LANGUAGE plpgsql AS $renew_job$
DECLARE
    before windlass.delayed_jobs;
    label jsonb := made.options::jsonb -> 'label';
BEGIN
    SELECT * INTO STRICT before FROM windlass.delayed_jobs d WHERE d.id = holder AND d.locked_by IS NULL FOR UPDATE;
    UPDATE windlass.delayed_jobs d
    SET payload = made.payload, scheduled_at = made.scheduled_at, priority = made.priority,
        expires_at = made.expires_at, options = nullif(
            jsonb_strip_nulls(coalesce(before.options::jsonb, '{}') || jsonb_build_object('label', label)), '{}'
        )
    WHERE d.id = holder;
    IF before.gate IS NULL THEN
        -- Two rows even within one minute: the second row notifies a worker.
        INSERT INTO windlass.count_deltas (job_type, queue, minute, waiting)
        SELECT before.job_type, before.queue, windlass.minute_of(due), n
        FROM (VALUES (before.scheduled_at, -1), (made.scheduled_at, 1)) AS moved (due, n);
    END IF;
    -- The job could run, and is postponed. A new row is created when its job is enqueued.
    IF before.scheduled_at <= made.created_at AND made.scheduled_at > made.created_at
        AND (before.gate IS NULL OR before.gate = 'suspect' OR before.gate LIKE 'ordering_key:%') THEN
        PERFORM windlass.mark_triggers(before, false);
    END IF;
END
$renew_job$;

-- Starts a dead letter over with fresh counters, and gives it its key again. It was started in time once, so
-- it no longer expires.
CREATE FUNCTION windlass.start_over(letter bigint, due timestamptz) RETURNS void
LANGUAGE plpgsql AS $start_over$
DECLARE
    gone windlass.delayed_jobs_dlq;
    of_ordering_key text;
BEGIN
    DELETE FROM windlass.delayed_jobs_dlq d WHERE d.id = letter RETURNING d.* INTO STRICT gone;
    INSERT INTO windlass.attempts (job, number, worker, started_at, ended_at, ending, error, output)
    SELECT gone.id, gone.attempts, gone.worker, gone.started_at, gone.ended_at, gone.ending, gone.attempt_error,
        gone.output
    WHERE gone.worker IS NOT NULL AND gone.started_at IS NOT NULL AND gone.ending IS NOT NULL;
    of_ordering_key := gone.options::jsonb ->> 'ordering_key';
    INSERT INTO windlass.delayed_jobs (
        id, scheduled_at, created_at, settled_by, max_attempts, priority, queue, job_type, payload, key, correlation,
        job_group, tags, options, last_error, ordering_key, gate, fairness_key
    ) VALUES (
        gone.id, due, gone.created_at, gone.settled_by, gone.max_attempts, gone.priority, gone.queue, gone.job_type,
        gone.payload, gone.key, gone.correlation, gone.job_group, gone.tags, gone.options, gone.last_error,
        of_ordering_key, windlass.ordering_key_gate(gone.job_type, of_ordering_key), gone.options::jsonb ->> 'fairness_key'
    );
    IF of_ordering_key IS NOT NULL THEN
        INSERT INTO windlass.ordering_key_marks (job_type, ordering_key) VALUES (gone.job_type, of_ordering_key);
    END IF;
    -- This dead letter holds the key already, with the scope and for the time that it was given then.
    IF of_ordering_key IS NULL THEN
        INSERT INTO windlass.count_deltas (job_type, queue, minute, waiting, dead_letters, dead, started_over) VALUES
            (gone.job_type, gone.queue, windlass.minute_of(due), 1, 0, 0, 0),
            (gone.job_type, gone.queue, NULL, 0, -1, -1, 1);
    ELSE
        INSERT INTO windlass.count_deltas (job_type, queue, parked, dead_letters, dead, started_over)
        VALUES (gone.job_type, gone.queue, 1, -1, -1, 1);
    END IF;
END
$start_over$;

-- Accepts or refuses a new job in the order of core's `accept`. A job that is wrong in several ways is
-- refused for the first.
CREATE FUNCTION windlass.accept(job windlass.new_job, rules windlass.accept_rules, unfinished bigint, at timestamptz)
RETURNS windlass.enqueue_answer LANGUAGE plpgsql AS $accept$
DECLARE
    why text := windlass.wrong_value(job);
    one windlass.enqueue_answer;
    is_full boolean := coalesce(unfinished >= rules.capacity, false);
BEGIN
    one.answer := 'refused';
    IF why IS NOT NULL THEN
        one.refusal := jsonb_build_object('Malformed', jsonb_build_object('why', why));
    ELSIF rules.job_type IS NULL THEN
        one.refusal := jsonb_build_object('UnknownType', jsonb_build_object('job_type', job.job_type));
    ELSIF lower(job.queue) <> rules.queue THEN
        one.refusal := jsonb_build_object('OtherQueue', jsonb_build_object(
            'job_type', job.job_type, 'registered', rules.queue, 'got', lower(job.queue)
        ));
    ELSIF rules.shut THEN
        one.refusal := jsonb_build_object('QueueShut', jsonb_build_object('queue', rules.queue));
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
        -- A job that is kept in the current state needs no lock.
        IF one.refusal IS NULL AND job.key IS NOT NULL AND one.answer <> 'duplicate' THEN
            SELECT v.answer, v.holder INTO one.answer, one.id FROM windlass.firm_verdict(job, at) AS v;
        END IF;
    END IF;
    IF one.refusal IS NULL AND is_full AND one.answer = 'new' THEN
        one.refusal := jsonb_build_object(
            'QueueFull', jsonb_build_object('queue', rules.queue, 'capacity', rules.capacity)
        );
    END IF;
    IF one.refusal IS NOT NULL THEN
        one.answer := 'refused';
        one.id := NULL;
    END IF;
    RETURN one;
END
$accept$;

-- Opens the receipt of a call. Returns false if there is a receipt already; waits for a transaction that is
-- about to store it.
CREATE FUNCTION windlass.open_receipt(request_id uuid, at timestamptz) RETURNS boolean
LANGUAGE plpgsql AS $open_receipt$
BEGIN
    INSERT INTO windlass.receipts AS r (request, at) VALUES (request_id, open_receipt.at)
    ON CONFLICT (request) DO UPDATE SET at = excluded.at, ids = NULL, answers = NULL
    WHERE r.at <= excluded.at - interval '1 hour';
    RETURN FOUND;
END
$open_receipt$;

-- Returns the answer to an earlier call of this request.
CREATE FUNCTION windlass.answered_before(request_id uuid, at timestamptz) RETURNS SETOF windlass.enqueue_answer
LANGUAGE plpgsql AS $answered_before$
DECLARE
    receipt windlass.receipts;
BEGIN
    SELECT * INTO receipt FROM windlass.receipts r
    WHERE r.request = request_id AND r.at > answered_before.at - interval '1 hour';
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'WL010', MESSAGE = 'this request was answered more than an hour ago',
            HINT = 'make a new request id';
    END IF;
    -- A null stands for the next id.
    RETURN QUERY
    SELECT a.place::integer,
        coalesce(
            (SELECT f.value::bigint FROM jsonb_each_text(nullif(a.answer, 'null')) AS f WHERE f.key <> 'Refused'),
            CASE
                WHEN a.answer = 'null'
                THEN receipt.ids[count(*) FILTER (WHERE a.answer = 'null') OVER (ORDER BY a.place)]
            END
        ),
        coalesce((SELECT lower(key) FROM jsonb_object_keys(nullif(a.answer, 'null')) AS key), 'new'),
        a.answer -> 'Refused'
    FROM jsonb_array_elements(
        coalesce(receipt.answers::jsonb, (SELECT jsonb_agg(NULL::text) FROM unnest(receipt.ids)), '[]')
    ) WITH ORDINALITY AS a (answer, place);
END
$answered_before$;

-- Fills in a receipt: ids if all jobs were new, and otherwise every answer in core's format.
CREATE FUNCTION windlass.close_receipt(request_id uuid, given windlass.enqueue_answer[]) RETURNS void
LANGUAGE plpgsql AS $close_receipt$
BEGIN
    IF (SELECT coalesce(bool_and(p.answer = 'new'), true) FROM unnest(given) AS p) THEN
        UPDATE windlass.receipts r SET ids = ARRAY (SELECT p.id FROM unnest(given) AS p ORDER BY p.position)
        WHERE r.request = request_id;
        RETURN;
    END IF;
    UPDATE windlass.receipts r SET answers = (
        SELECT jsonb_agg(jsonb_build_object(initcap(p.answer), coalesce(p.refusal, to_jsonb(p.id))) ORDER BY p.position)
        FROM unnest(given) AS p
    )
    WHERE r.request = request_id;
END
$close_receipt$;

-- Stores new jobs. Each job is accepted or refused by itself, after the effects of the jobs before it. Keys
-- are locked before jobs, in order.
CREATE FUNCTION windlass.accept_jobs(jobs windlass.new_job[], request_id uuid, present timestamptz)
RETURNS SETOF windlass.enqueue_answer LANGUAGE plpgsql AS $accept_jobs$
DECLARE
    at timestamptz := coalesce(present, clock_timestamp());
    new_one windlass.new_job;
    rules windlass.accept_rules;
    depths jsonb := '{}';
    one windlass.enqueue_answer;
    answers windlass.enqueue_answer[] := '{}';
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
        WHERE j.key IS NOT NULL AND windlass.wrong_value(j) IS NULL AND (windlass.verdict(j, at)).answer <> 'duplicate'
        HAVING count(*) > 0;
    END IF;
    FOREACH new_one IN ARRAY jobs LOOP
        IF rules.job_type IS DISTINCT FROM new_one.job_type THEN
            SELECT t.name, t.queue, coalesce(t.priority, q.priority), t.max_attempts, q.capacity, q.shut INTO rules
            FROM windlass.job_types t JOIN windlass.queues q ON q.name = t.queue WHERE t.name = new_one.job_type;
        END IF;
        IF rules.capacity IS NOT NULL AND NOT depths ? rules.queue THEN
            depths := depths || jsonb_build_object(rules.queue, windlass.unfinished(rules.queue));
        END IF;
        one := windlass.accept(new_one, rules, (depths ->> rules.queue)::bigint, at);
        one.position := cardinality(answers) + 1;
        IF one.answer IN ('new', 'revived') AND depths ? rules.queue THEN
            depths := depths || jsonb_build_object(rules.queue, (depths ->> rules.queue)::bigint + 1);
        END IF;
        IF one.answer IN ('new', 'replaced', 'revived') THEN
            -- The call may have waited for the key until the former holder ended: this job is created after
            -- that end.
            IF new_one.key IS NOT NULL THEN
                at := greatest(at, coalesce(present, clock_timestamp()));
            END IF;
            made := windlass.row_of(new_one, rules, at);
        END IF;
        IF one.answer = 'new' THEN
            made.id := nextval('windlass.job_ids');
            one.id := made.id;
            counted := counted || jsonb_build_object(
                'job_type', made.job_type, 'queue', made.queue, 'minute',
                CASE WHEN made.ordering_key IS NULL THEN windlass.minute_of(made.scheduled_at) END
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
        answers := answers || one;
    END LOOP;
    PERFORM windlass.insert_jobs(without_key);
    -- A job behind the gate of its ordering key has no minute.
    INSERT INTO windlass.count_deltas (job_type, queue, minute, waiting, parked, enqueued)
    SELECT c ->> 'job_type', c ->> 'queue', (c ->> 'minute')::bigint, count(c ->> 'minute'),
        count(*) - count(c ->> 'minute'), count(*)
    FROM unnest(counted) AS c GROUP BY 1, 2, 3;
    IF has_refused THEN
        -- Reserved rows of keys that no job took.
        DELETE FROM windlass.job_keys k USING unnest(jobs) AS j
        WHERE k.job_type = j.job_type AND k.key = j.key AND k.job IS NULL;
    END IF;
    IF request_id IS NOT NULL THEN
        PERFORM windlass.close_receipt(request_id, answers);
    END IF;
    RETURN QUERY SELECT p.* FROM unnest(answers) AS p;
END
$accept_jobs$;
