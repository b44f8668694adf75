-- live_workers: workers that were not declared dead or let out, oldest first.
SELECT id, host, pid, version, queues, types, lease, since, beats, seen_at, expires_at
FROM workers WHERE ended IS NULL ORDER BY since, id;
