-- rollups_of: reads the rollups of some minutes and types.
-- by position: $1 minutes   $2 queues   $3 types
SELECT m.minute, m.queue, m.job_type, m.enqueued, m.started, m.succeeded, m.retried, m.dead, m.cancelled, m.waits, m.runs
FROM unnest($1::bigint[], $2::text[], $3::text[]) AS k (minute, queue, job_type)
-- A lookup for each, so that it is found by its key, also with a plan that was made while the table was
-- empty.
CROSS JOIN LATERAL (
    SELECT * FROM windlass.job_rollups r
    WHERE r.minute = k.minute AND r.queue = k.queue AND r.job_type = k.job_type OFFSET 0
) AS m;
