-- rollup_input: reads the store's clock, the watermark, the totals now, and the oldest samples of workers;
-- all in one snapshot, so that the totals are never older than the watermark.
-- $1 now, or null for the server's clock   $2 limit of samples
-- plan: walks count_deltas: folding keeps this table short
-- plan: walks rollup_samples_pkey: it stops at its limit, and the rollup deletes the rows it has read
-- plan: sorts: changes that are not yet folded are grouped by type
WITH totals AS (
    SELECT job_type, min(queue) AS queue, sum(enqueued)::bigint AS enqueued, sum(succeeded)::bigint AS succeeded,
        sum(retried)::bigint AS retried, sum(dead)::bigint AS dead, sum(cancelled)::bigint AS cancelled,
        sum(started_over)::bigint AS started_over
    FROM (
        SELECT job_type, queue, enqueued, succeeded, retried, dead, cancelled, started_over FROM windlass.counts
        UNION ALL
        SELECT job_type, queue, enqueued, succeeded, retried, dead, cancelled, started_over FROM windlass.count_deltas
    ) AS both_parts GROUP BY 1
), samples AS (
    SELECT id, at, seen FROM windlass.rollup_samples ORDER BY id LIMIT $2::integer
)
SELECT coalesce($1::timestamptz, clock_timestamp()), m.version, m.booked, t.*, d.*
FROM (
    SELECT array_agg(queue), array_agg(job_type), array_agg(enqueued), array_agg(succeeded), array_agg(retried),
        array_agg(dead), array_agg(cancelled), array_agg(started_over) FROM totals
) AS t
CROSS JOIN (
    SELECT array_agg(id ORDER BY id), array_agg(at ORDER BY id), array_agg(seen ORDER BY id) FROM samples
) AS d
LEFT JOIN windlass.rollup_watermark m ON true;
