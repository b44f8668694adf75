-- live_workers: lists workers that neither were declared dead nor have retired, and how many jobs each
-- holds.
-- $1 now, or null for the server's clock
-- plan: walks claim_ends: folding keeps this table short
-- plan: sorts: ends that are not yet folded are grouped by worker
WITH ended AS MATERIALIZED (
    SELECT c.worker, sum(e.jobs) AS jobs FROM windlass.claim_ends e JOIN windlass.claims c ON c.token = e.token GROUP BY 1
)
SELECT coalesce($1::timestamptz, now()), w.id, w.host, w.pid, w.version, w.queues, w.types, w.lease_micros, w.since,
    w.seen_at, w.expires_at, w.beats,
    (coalesce((SELECT sum(c.held) FROM windlass.claims c WHERE c.worker = w.id AND c.jobs IS NOT NULL), 0)
        - coalesce((SELECT e.jobs FROM ended e WHERE e.worker = w.id), 0))::bigint,
    w.duties, w.slots, w.clock_ahead_micros
FROM windlass.workers w WHERE w.died IS NULL ORDER BY w.id;
