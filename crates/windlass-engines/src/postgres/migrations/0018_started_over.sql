-- How often a dead letter was started over: without it, a job that died three times would be counted as one death.
ALTER TABLE windlass.counts ADD COLUMN started_over bigint NOT NULL DEFAULT 0;
ALTER TABLE windlass.count_deltas ADD COLUMN started_over integer NOT NULL DEFAULT 0;

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
        INSERT INTO windlass.count_deltas (job_type, queue, minute, waiting, dead_letters, dead, started_over) VALUES
            (gone.job_type, gone.queue, floor(extract(epoch FROM due) / 60)::bigint, 1, 0, 0, 0),
            (gone.job_type, gone.queue, NULL, 0, -1, -1, 1);
    ELSE
        INSERT INTO windlass.count_deltas (job_type, queue, parked, dead_letters, dead, started_over)
        VALUES (gone.job_type, gone.queue, 1, -1, -1, 1);
    END IF;
END
$start_over$;
