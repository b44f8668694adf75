-- Completion triggers and their marks.

-- Completion triggers: the state of each, in core's format, what it watches, and when it may be evaluated
-- again. The version goes up with each change and each firing, and a process that changes or fires a
-- trigger names the version that it has read.
CREATE TABLE windlass.completion_triggers (
    name text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    kind text NOT NULL,
    watched text NOT NULL,
    wait_for_retries boolean NOT NULL,
    look_at timestamptz,
    last_job bigint,
    record text NOT NULL
) WITH (fillfactor = 50);

-- A mark says that a job kept a completion trigger unfinished and does so no more. Each statement that ends
-- or moves a job inserts its marks, and no statement updates them, so no session waits for another. The
-- process that evaluates a trigger deletes the marks that it saw together with the rest of the group, and
-- no others.
CREATE TABLE windlass.completion_trigger_marks (
    id bigint GENERATED ALWAYS AS IDENTITY,
    trigger text COLLATE "C" NOT NULL,
    PRIMARY KEY (trigger, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Marks the completion triggers that a job kept unfinished: all that watch it, or, if the job goes on, only
-- those that do not wait for retries. The job of a trigger keeps no trigger unfinished that watches the
-- same group: two of them would otherwise fire each other for ever.
CREATE FUNCTION windlass.mark_triggers(job windlass.delayed_jobs, has_ended boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql AS $mark_triggers$
BEGIN
    INSERT INTO windlass.completion_trigger_marks (trigger)
    SELECT d.name FROM windlass.completion_triggers d
    WHERE d.watched = CASE d.kind WHEN 'queue' THEN job.queue WHEN 'type' THEN job.job_type ELSE job.job_group END
        AND (has_ended OR NOT d.wait_for_retries)
        AND CASE WHEN job.key LIKE 'trigger/%/%' THEN NOT EXISTS (
            SELECT 1 FROM windlass.completion_triggers o
            WHERE o.name = split_part(job.key, '/', 2) COLLATE "C" AND o.kind = d.kind AND o.watched = d.watched
        ) ELSE true END;
END
$mark_triggers$;

-- A waiting job was postponed: it kept the triggers unfinished that do not wait for retries, and does so no
-- more. As the owner: a role that enqueues jobs under a key has no right to see triggers.
CREATE FUNCTION windlass.mark_put_off(number bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $mark_put_off$
BEGIN
    PERFORM windlass.mark_triggers(j, false) FROM windlass.delayed_jobs j WHERE j.id = number AND j.locked_by IS NULL;
END
$mark_put_off$;
REVOKE EXECUTE ON FUNCTION windlass.mark_put_off FROM PUBLIC;
