-- mark_drains: a waiting job was put off: it held drains that do not wait for retries, and holds them no more.
-- $1 its number
INSERT INTO windlass.drain_marks (drain)
SELECT d.name FROM windlass.job_drains d WHERE NOT d.wait_for_retries AND EXISTS (
    SELECT 1 FROM windlass.delayed_jobs g
    WHERE g.id = $1::bigint
        AND d.watched = CASE d.kind WHEN 'queue' THEN g.queue WHEN 'type' THEN g.job_type ELSE g.job_group END
        AND NOT coalesce(starts_with(g.key, 'drain/' || d.name || '/'), false)
)
RETURNING id;
