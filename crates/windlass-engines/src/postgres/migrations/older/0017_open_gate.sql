-- open_gate: the oldest jobs behind a gate go through; one that ever crashed goes on behind another. What somebody has locked
-- is left for the next time. Answers for each queue and priority how many went, and from where claims must look again;
-- nothing for those behind another gate.
-- $1 gate   $2 at most so many   $3 the gate of one that ever crashed
WITH picked AS MATERIALIZED (
    SELECT ctid AS place FROM windlass.delayed_jobs WHERE gate = $1::text
    ORDER BY scheduled_at, id LIMIT $2::integer
    FOR UPDATE SKIP LOCKED
), through AS (
    UPDATE windlass.delayed_jobs SET gate = CASE WHEN crashes > 0 THEN $3::text END
    WHERE ctid = ANY (ARRAY (SELECT place FROM picked))
    RETURNING queue, job_type, priority, scheduled_at, gate
), counted AS (
    INSERT INTO windlass.count_deltas (job_type, queue, minute, waiting, parked)
    SELECT job_type, queue, floor(extract(epoch FROM minute) / 60)::bigint, n, - n FROM (
        -- No number stands for the minute of a job that somebody made due at infinity.
        SELECT job_type, queue, date_trunc('minute', least(greatest(scheduled_at, to_timestamp(0)), '9999-01-01Z')) AS minute, count(*) AS n
        FROM through WHERE gate IS NULL GROUP BY 1, 2, 3
    ) AS through_by_minute
), noted AS (
    INSERT INTO windlass.requeued_jobs (at, queue, priority, scheduled_at)
    SELECT clock_timestamp(), queue, priority, min(scheduled_at) FROM through WHERE gate IS NULL GROUP BY 2, 3
)
SELECT queue, priority, count(*), min(scheduled_at) FILTER (WHERE gate IS NULL) FROM through GROUP BY 1, 2;
