-- note_locks: notes the owner of the locks that this session has just taken, for operators. Deletes notes
-- of locks that no session has held for long.
-- $1 now, or null for the server's clock   $2 duties   $3 worker
-- $4 how long a note without a lock is kept, in microseconds
-- plan: sorts: locks, and there are few
WITH held AS MATERIALIZED (
    SELECT (l.classid::bigint << 32) | l.objid::bigint AS key
    FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
), forgotten AS (
    DELETE FROM windlass.duty_locks n
    WHERE n.since < coalesce($1::timestamptz, clock_timestamp()) - $4::bigint * interval '1 microsecond'
        AND n.duty <> ALL ($2::text[])
        AND NOT EXISTS (SELECT 1 FROM held h WHERE h.key = hashtextextended('windlass.' || n.duty, 0))
)
INSERT INTO windlass.duty_locks (duty, worker, session, since)
SELECT i.duty, $3::uuid, pg_backend_pid(), coalesce($1::timestamptz, clock_timestamp())
FROM unnest($2::text[]) AS i (duty)
ON CONFLICT (duty) DO UPDATE SET worker = excluded.worker, session = excluded.session, since = excluded.since;
