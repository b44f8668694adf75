-- fold_counts: adds the oldest changes to the counts and the minutes, and deletes them; each row returns
-- how many. Two sessions that fold at once take different changes.
-- $1 limit
-- plan: walks count_deltas_pkey: it stops at its limit, and deletes the rows it has read
-- plan: sorts: changes are grouped by type and minute, at most as many as the limit takes
WITH oldest AS MATERIALIZED (
    SELECT id FROM windlass.count_deltas ORDER BY id LIMIT $1::bigint FOR UPDATE SKIP LOCKED
), gone AS MATERIALIZED (
    DELETE FROM windlass.count_deltas WHERE id = ANY (ARRAY (SELECT id FROM oldest)) RETURNING *
), minutes AS (
    INSERT INTO windlass.count_minutes AS c (queue, minute, n)
    SELECT queue, minute, sum(waiting) FROM gone
    WHERE minute IS NOT NULL GROUP BY 1, 2 HAVING sum(waiting) <> 0 ORDER BY 1, 2
    ON CONFLICT (queue, minute) DO UPDATE SET n = c.n + excluded.n
)
INSERT INTO windlass.counts AS c (
    job_type, queue, waiting, parked, running, dead_letters, enqueued, succeeded, retried, dead, cancelled,
    started_over
)
SELECT job_type, min(queue), sum(waiting), sum(parked), sum(running), sum(dead_letters), sum(enqueued), sum(succeeded),
    sum(retried), sum(dead), sum(cancelled), sum(started_over)
FROM gone GROUP BY 1 ORDER BY 1
ON CONFLICT (job_type) DO UPDATE SET
    waiting = c.waiting + excluded.waiting, parked = c.parked + excluded.parked, running = c.running + excluded.running,
    dead_letters = c.dead_letters + excluded.dead_letters, enqueued = c.enqueued + excluded.enqueued,
    succeeded = c.succeeded + excluded.succeeded, retried = c.retried + excluded.retried, dead = c.dead + excluded.dead,
    cancelled = c.cancelled + excluded.cancelled, started_over = c.started_over + excluded.started_over
RETURNING (SELECT count(*) FROM gone);
