-- rollups_of: some minutes of some types.
-- by position: $1 minutes   $2 queues   $3 types
SELECT m.minute, m.queue, m.job_type, m.enqueued, m.started, m.succeeded, m.retried, m.dead, m.cancelled, m.waits, m.runs
FROM unnest($1::bigint[], $2::text[], $3::text[]) AS k (minute, queue, job_type)
-- Each apart, so that it is found by its key, also by a plan that was made while there was none.
CROSS JOIN LATERAL (
    SELECT * FROM windlass.job_rollups r
    WHERE r.minute = k.minute AND r.queue = k.queue AND r.job_type = k.job_type OFFSET 0
) AS m;
