-- queue_counts: counts the jobs of each queue by state, its events so far and its due jobs, and finds how
-- long its oldest ready job has waited. It reads the first 100 jobs of each priority for that
-- (OLDEST_SCANNED_MAX; a test compares them). Only jobs that fall due in the rest of the current minute are
-- counted one by one: most of a big burst is due already.
-- $1 now, or null for the server's clock   $2 queues
-- plan: walks count_deltas: folding keeps this table short
-- plan: sorts: changes that are not yet folded are grouped by queue
WITH clock AS MATERIALIZED (
    SELECT at, floor(extract(epoch FROM at) / 60)::bigint AS minute
    FROM (SELECT coalesce($1::timestamptz, now()) AS at) AS c
), stored AS MATERIALIZED (
    SELECT queue, sum(waiting)::bigint AS waiting, sum(parked)::bigint AS parked, sum(running)::bigint AS running,
        sum(dead_letters)::bigint AS dead_letters, sum(enqueued)::bigint AS enqueued,
        sum(succeeded)::bigint AS succeeded, sum(retried)::bigint AS retried, sum(dead)::bigint AS dead,
        sum(cancelled)::bigint AS cancelled, sum(started_over)::bigint AS started_over
    FROM (
        SELECT queue, waiting, parked, running, dead_letters, enqueued, succeeded, retried, dead, cancelled, started_over
        FROM windlass.counts
        UNION ALL
        SELECT queue, waiting, parked, running, dead_letters, enqueued, succeeded, retried, dead, cancelled, started_over
        FROM windlass.count_deltas
    ) AS both_parts GROUP BY queue
), till_next_minute AS MATERIALIZED (
    SELECT queue, sum(n)::bigint AS n FROM (
        SELECT m.queue, m.n FROM windlass.count_minutes m, clock WHERE m.minute <= clock.minute
        UNION ALL
        SELECT d.queue, d.waiting FROM windlass.count_deltas d, clock WHERE d.minute <= clock.minute
    ) AS both_parts GROUP BY queue
)
SELECT q.name, clock.at, coalesce(s.waiting, 0), coalesce(s.parked, 0), coalesce(s.running, 0),
    coalesce(s.dead_letters, 0), coalesce(s.enqueued, 0), coalesce(s.succeeded, 0), coalesce(s.retried, 0),
    coalesce(s.dead, 0), coalesce(s.cancelled, 0), coalesce(till.n, 0) - coalesce(cursors.later, 0), cursors.oldest,
    coalesce(s.started_over, 0)
FROM clock
CROSS JOIN unnest($2::text[]) AS q (name)
LEFT JOIN stored s ON s.queue = q.name
LEFT JOIN till_next_minute till ON till.queue = q.name
LEFT JOIN LATERAL (
    SELECT sum(lane.later)::bigint AS later, min(lane.oldest) AS oldest
    FROM generate_series(0, 10) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT (
            SELECT count(*) FROM windlass.delayed_jobs j
            WHERE j.locked_at IS NULL AND j.gate IS NULL AND j.queue = q.name AND j.priority = p.priority
                AND j.scheduled_at > clock.at AND j.scheduled_at < to_timestamp((clock.minute + 1) * 60)
        ) AS later, (
            SELECT min(greatest(first.scheduled_at, first.created_at)) FROM (
                SELECT j.scheduled_at, j.created_at FROM windlass.delayed_jobs j
                WHERE j.locked_at IS NULL AND j.gate IS NULL AND j.queue = q.name AND j.priority = p.priority
                    AND j.scheduled_at <= clock.at
                ORDER BY j.scheduled_at LIMIT 100
            ) AS first
        ) AS oldest
    ) AS lane
) AS cursors ON true;
