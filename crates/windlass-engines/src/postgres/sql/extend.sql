-- extend: records a worker's heartbeat; returns nothing for a worker that was declared dead or never
-- registered. Returns whether its lease had expired, its types, the time, and its duties. Each row holds
-- one set of duties of other live workers, which have missed at most one heartbeat of the three in their
-- lease: the set, the number of these workers, and how many of them stand before this worker in the ring.
-- One row without a set if there are no others. It touches no jobs: a session that locks their table must
-- not cost a worker its lease.
-- $1 now, or null for the server's clock   $2 worker   $3 lease in microseconds
-- $4 what its own clock shows, or null
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
