-- live_workers: lists workers that neither were declared dead nor have retired.
SELECT id, host, pid, version, queues, types, lease, since, beats, seen_at, expires_at, duties, slots, clock_ahead
FROM workers WHERE died IS NULL ORDER BY id;
