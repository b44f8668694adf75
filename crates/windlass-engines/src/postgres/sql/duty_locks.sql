-- duty_locks: lists by name the locks of duties that a session holds or a worker has noted, each with the
-- session that holds it now and the note of that session. A lock without a note is found only if a worker
-- names its duty.
-- $1 limit
-- plan: cold: an operator lists which process does a duty
SELECT d.duty, l.pid, CASE WHEN l.pid = n.session THEN n.worker END, CASE WHEN l.pid = n.session THEN n.since END
FROM (
    SELECT k.duty, hashtextextended('windlass.' || k.duty, 0) AS key
    FROM (SELECT duty FROM windlass.duty_locks UNION SELECT unnest(w.duties) FROM windlass.workers w) AS k
) AS d
LEFT JOIN windlass.duty_locks n ON n.duty = d.duty
LEFT JOIN pg_locks l ON l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.classid::bigint = (d.key >> 32) & 4294967295 AND l.objid::bigint = d.key & 4294967295
WHERE n.duty IS NOT NULL OR l.pid IS NOT NULL
ORDER BY d.duty LIMIT $1::integer;
