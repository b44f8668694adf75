-- extend: a worker's heartbeat; nothing for one that was declared dead or never registered. Answers whether its
-- lease had run out, and what it handles.
-- $1 now, or null for the server's clock   $2 worker   $3 good for so many microseconds
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, now()) AS at
), before AS MATERIALIZED (
    SELECT id, expires_at FROM windlass.workers WHERE id = $2::uuid AND died IS NULL FOR UPDATE
)
UPDATE windlass.workers w
SET beats = w.beats + 1, seen_at = clock.at, expires_at = clock.at + $3::bigint * interval '1 microsecond'
FROM clock, before
WHERE w.id = before.id AND w.died IS NULL
RETURNING before.expires_at <= clock.at, w.types;
