-- extend: a worker's heartbeat; nothing for one that was declared dead or never registered. Answers whether its
-- lease had run out, what it handles, the time, and its duties; in a row for each set of duties that others have which are heard
-- (they missed one beat at most, of the three in their lease): the set, how many they are, and how many of them stand before
-- it. One row without a set if there are none. It touches no jobs: whoever has their table locked must not cost a worker.
-- $1 now, or null for the server's clock   $2 worker   $3 good for so many microseconds   $4 what its own clock shows, or null
-- plan: sorts: live workers are grouped by their duties
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, now()) AS at
), before AS MATERIALIZED (
    SELECT id, expires_at, place FROM windlass.workers WHERE id = $2::uuid AND died IS NULL FOR UPDATE
), beaten AS (
    UPDATE windlass.workers w
    SET beats = w.beats + 1, seen_at = clock.at, expires_at = clock.at + $3::bigint * interval '1 microsecond',
        clock_ahead_micros = coalesce(
            (extract(epoch FROM $4::timestamptz - clock.at) * 1000000)::bigint, w.clock_ahead_micros
        )
    FROM clock, before
    WHERE w.id = before.id AND w.died IS NULL
    RETURNING before.expires_at <= clock.at AS was_late, w.types, w.duties
), in_flight AS MATERIALIZED (
    SELECT o.duties, count(*) AS able, count(*) FILTER (WHERE o.place < before.place) AS before
    FROM windlass.workers o, clock, before
    WHERE o.died IS NULL AND o.id <> before.id AND o.duties <> '{}'
        AND (clock.at - o.seen_at) * 2 <= o.lease_micros * interval '1 microsecond'
    GROUP BY o.duties
)
SELECT beaten.was_late, beaten.types, clock.at, beaten.duties, in_flight.duties, in_flight.able, in_flight.before
FROM clock CROSS JOIN beaten LEFT JOIN in_flight ON true;
