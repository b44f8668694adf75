-- Marks the drains that a job held: all that watch it, or only those that do not wait for retries, if it goes on. As before, but that the
-- job of a drain holds no drain that watches the same: two of them would else fire each other for ever.
CREATE OR REPLACE FUNCTION windlass.mark_triggers(job windlass.delayed_jobs, has_ended boolean DEFAULT true) RETURNS void
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
