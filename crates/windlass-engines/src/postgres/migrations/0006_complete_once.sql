-- complete: only the transaction that ends the job is told so. A claim that was settled before, even by the same handler, is
-- lost: who repeats a transaction whose commit was not heard of would else write twice, and so would a handler whose
-- job has meanwhile been put back for another attempt.
--
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
    IF gone.key IS NOT NULL THEN
        INSERT INTO windlass.ended_keys (job, job_type, key) VALUES (gone.id, gone.job_type, gone.key);
    END IF;
    RETURN true;
END
$complete$;

DROP FUNCTION windlass.was_settled(bigint, uuid);
