-- Functions for callers' transactions, third part: those that an application calls. They act with the owner's
-- rights, so no role may call them until the owner grants it.

-- A refusal in core's words, with a code and with what to do.
CREATE FUNCTION windlass.refusal_text(refusal jsonb, OUT code text, OUT why text, OUT hint text)
LANGUAGE plpgsql STABLE AS $refusal_text$
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
                'workers register theirs at start, or run `windlass type register %s --queue QUEUE`',
                about ->> 'job_type'
            );
        WHEN 'OtherQueue' THEN
            code := 'WL002';
            why := format(
                'expected job type %s in its queue %s, got queue %s',
                about ->> 'job_type', about ->> 'registered', about ->> 'got'
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
$refusal_text$;

-- Enqueues one job and returns its id, or that of the job that holds its key. Raises what core refuses.
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
    fairness_key text DEFAULT NULL,
    caused_by text DEFAULT NULL,
    trace_context text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off
AS $enqueue$
DECLARE
    one windlass.enqueue_answer;
    words record;
BEGIN
    SELECT * INTO one FROM windlass.accept_jobs(
        ARRAY[ROW (
            job_type, coalesce(payload, '{}'), queue, priority, delay, run_at, expires_in, expires_at, key,
            coalesce(key_scope, 'while-live'), coalesce(on_conflict, 'keep'), correlation_id, job_group, tags, label,
            timeout, retry, ordering_key, fairness_key, caused_by, trace_context, NULL
        )::windlass.new_job],
        request_id,
        NULL
    );
    IF one.refusal IS NOT NULL THEN
        SELECT * INTO words FROM windlass.refusal_text(one.refusal);
        RAISE EXCEPTION USING ERRCODE = words.code, MESSAGE = words.why, HINT = words.hint;
    END IF;
    RETURN one.id;
END
$enqueue$;

-- Enqueues many jobs: an array of objects whose fields are the arguments of enqueue. Each job is accepted
-- or refused by itself; a refusal is an answer and spoils no other job.
CREATE FUNCTION windlass.enqueue_many(jobs json, request_id uuid DEFAULT NULL, present timestamptz DEFAULT NULL)
RETURNS TABLE ("position" integer, id bigint, answer text, code text, why text, refusal jsonb)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off
AS $enqueue_many$
BEGIN
    IF json_typeof(jobs) IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION USING ERRCODE = 'WL010', MESSAGE = 'expected an array of jobs',
            HINT = 'enqueue one job with `enqueue`, or put it in brackets';
    ELSIF json_array_length(jobs) > 1000 THEN
        RAISE EXCEPTION USING ERRCODE = 'WL010',
            MESSAGE = format('expected at most 1000 jobs in one request, got %s', json_array_length(jobs)),
            HINT = 'send them in parts';
    END IF;
    RETURN QUERY
    SELECT p.position, p.id, p.answer, w.code, w.why || '; ' || w.hint, p.refusal
    FROM windlass.accept_jobs(
        ARRAY (
            SELECT windlass.read_job(j.job) FROM json_array_elements(jobs) WITH ORDINALITY AS j (job, place)
            ORDER BY j.place
        ),
        request_id,
        present
    ) AS p
    LEFT JOIN LATERAL windlass.refusal_text(p.refusal) AS w ON p.refusal IS NOT NULL
    ORDER BY p.position;
END
$enqueue_many$;

-- Ends a job as succeeded, or as cancelled if it was asked to stop, if the claim still holds. Returns false
-- if it does not: then nothing is written, and the caller should roll back its transaction. The attempt
-- began with its claim.
--
-- Only the transaction that ends the job gets true. A claim that was settled before, even by the same
-- handler, is lost: a caller that repeats a transaction after a commit without an answer would otherwise
-- write twice, and so would a handler whose job was meanwhile requeued for another attempt.
CREATE FUNCTION windlass.complete(job bigint, token uuid, present timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off
AS $complete$
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
    -- Jobs of a type whose row was deleted are kept as long as those of a type that sets no retention.
    retention := coalesce((SELECT t.retention_days FROM windlass.job_types t WHERE t.name = gone.job_type), 7);
    IF retention > 0 THEN
        -- Waits for a session that is creating a partition: otherwise the row may be on its way to the
        -- default partition when it no longer fits there, and the whole transaction would fail. No session
        -- creates a partition until the transaction ends.
        LOCK TABLE windlass.job_history_rest IN ROW EXCLUSIVE MODE;
        INSERT INTO windlass.job_history (
            id, keep_until, scheduled_at, created_at, expires_at, ended_at, started_at, settled_by, worker,
            attempts, max_attempts, failures, crashes, holds, priority, state, queue, job_type, payload, key,
            correlation, job_group, tags, options, progress, last_error, why, ending
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

REVOKE EXECUTE ON FUNCTION windlass.enqueue, windlass.enqueue_many, windlass.complete FROM PUBLIC;
