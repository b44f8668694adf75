-- A dead letter that its key revives takes a place in its queue, like a new job: those that follow it in the batch have one less.

-- Puts new jobs in, each judged by itself, knowing what those before it did. Keys are locked before jobs, in order.
CREATE OR REPLACE FUNCTION windlass.put_jobs(jobs windlass.new_job[], request_id uuid, present timestamptz)
RETURNS SETOF windlass.placed LANGUAGE plpgsql AS $put_jobs$
DECLARE
    at timestamptz := coalesce(present, clock_timestamp());
    new_one windlass.new_job;
    door windlass.door;
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
        IF one.answer IN ('new', 'revived') AND depths ? door.queue THEN
            depths := depths || jsonb_build_object(door.queue, (depths ->> door.queue)::bigint + 1);
        END IF;
        IF one.answer IN ('new', 'replaced', 'revived') THEN
            made := windlass.row_of(new_one, door, at);
        END IF;
        IF one.answer = 'new' THEN
            made.id := nextval('windlass.job_ids');
            one.id := made.id;
            counted := counted || jsonb_build_object(
                'job_type', made.job_type, 'queue', made.queue, 'minute', CASE WHEN made.series IS NULL THEN floor(extract(epoch FROM made.scheduled_at) / 60) END
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
    -- What comes in behind the gate of its series has no minute.
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
