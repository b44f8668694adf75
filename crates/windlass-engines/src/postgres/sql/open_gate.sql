-- open_gate: lets the oldest jobs behind a gate through; a job that has ever crashed goes behind another
-- gate. Jobs that another session has locked are left for the next time. Returns for each queue and
-- priority how many jobs went through, and from where claims must read again: null for jobs behind another
-- gate. Each row has the position of the last job, if others wait behind it.
-- $1 gate   $2 limit   $3 the gate of a job that has ever crashed   $4 and $5 due time and id they come after
-- plan: sorts: the jobs that pass, of which the last is returned
WITH picked AS MATERIALIZED (
    SELECT ctid AS place, scheduled_at, id FROM windlass.delayed_jobs
    WHERE gate = $1::text AND (scheduled_at, id) > ($4::timestamptz, $5::bigint)
    ORDER BY scheduled_at, id LIMIT $2::integer
    FOR UPDATE SKIP LOCKED
), through AS (
    UPDATE windlass.delayed_jobs SET gate = CASE WHEN crashes > 0 THEN $3::text END
    WHERE ctid = ANY (ARRAY (SELECT place FROM picked))
    RETURNING id, queue, job_type, priority, scheduled_at, gate
), counted AS (
    INSERT INTO windlass.count_deltas (job_type, queue, minute, waiting, parked)
    SELECT job_type, queue, floor(extract(epoch FROM minute) / 60)::bigint, n, - n FROM (
        -- The minute of a job that is due at infinity has no number.
        SELECT job_type, queue, date_trunc('minute', least(greatest(scheduled_at, to_timestamp(0)), '9999-01-01Z')) AS minute, count(*) AS n
        FROM through WHERE gate IS NULL GROUP BY 1, 2, 3
    ) AS through_by_minute
), noted AS (
    INSERT INTO windlass.requeued_jobs (at, queue, priority, scheduled_at)
    SELECT clock_timestamp(), queue, priority, min(scheduled_at) FROM through WHERE gate IS NULL GROUP BY 2, 3
), last AS MATERIALIZED (
    SELECT p.scheduled_at, p.id FROM picked p ORDER BY 1 DESC, 2 DESC LIMIT 1
), ahead AS MATERIALIZED (
    SELECT l.scheduled_at, l.id FROM last l WHERE EXISTS (
        SELECT 1 FROM windlass.delayed_jobs j WHERE j.gate = $1::text AND (j.scheduled_at, j.id) > (l.scheduled_at, l.id)
    )
)
SELECT t.queue, t.priority, t.n, t.due, t.first, ahead.scheduled_at, ahead.id FROM (
    SELECT queue, priority, count(*) AS n, min(scheduled_at) FILTER (WHERE gate IS NULL) AS due, min(id) AS first
    FROM through GROUP BY 1, 2
) AS t LEFT JOIN ahead ON true;
