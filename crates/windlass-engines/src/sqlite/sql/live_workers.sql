-- live_workers: workers that were not declared dead or let out.
SELECT id, host, pid, version, queues, types, lease, since, beats, seen_at, expires_at, duties, slots, clock_ahead
FROM workers WHERE died IS NULL ORDER BY id;
