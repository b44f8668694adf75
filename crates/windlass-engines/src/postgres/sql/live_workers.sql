-- live_workers: workers that were not declared dead or let out, and how many jobs each holds.
-- $1 now, or null for the server's clock
SELECT coalesce($1::timestamptz, now()), w.id, w.host, w.pid, w.version, w.queues, w.types, w.lease_micros, w.since,
    w.seen_at, w.expires_at, w.beats,
    (SELECT count(*) FROM windlass.delayed_jobs j WHERE j.locked_by = w.id)
FROM windlass.workers w WHERE w.died IS NULL ORDER BY w.id;
