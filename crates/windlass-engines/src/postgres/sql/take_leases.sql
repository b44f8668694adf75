-- take_leases: takes leases that no worker holds or whose heartbeat is older than their expiry, as core's
-- `StoredLease::take` decides. Guarded by `leases::leases_go_as_core_decides`. Reading leases that other
-- workers hold locks nothing. A free lease is locked only if no other session has locked it: a transaction
-- that writes under the last term may take long, and the leases beside it must not wait for that. Guarded
-- by `a_long_transaction_under_one_term_keeps_no_process_from_other_leases`. Only a repeat waits, for
-- heartbeats of its own term. The time that is written is read once, when all locks are held.
-- $1 now, or null for the server's clock   by position: $2 duties   $3 expiries in microseconds   $4 worker
-- $5 term
-- $6 maximum number of duties with a lease
-- $7 age in microseconds of a heartbeat after which a lease may make room for another
-- plan: sorts: the leases of one request
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS a (duty, expiry, place)
), seen AS MATERIALIZED (
    SELECT a.duty, a.expiry, a.place, s.job_name IS NOT NULL AS is_there, s.held_by_worker_id, s.term, s.heartbeat_at,
        s.expiry_micros
    FROM asked a LEFT JOIN windlass.background_job_leases s ON s.job_name = a.duty
), fresh AS MATERIALIZED (
    SELECT duty, expiry, row_number() OVER (ORDER BY place) AS nth FROM seen WHERE NOT is_there
), room AS MATERIALIZED (
    SELECT CASE WHEN (SELECT count(*) FROM fresh) = 0 THEN 0
        ELSE $6::bigint - (SELECT count(*) FROM windlass.background_job_leases) END AS places
), forgotten AS (
    DELETE FROM windlass.background_job_leases l USING room
    WHERE (SELECT count(*) FROM fresh) > room.places AND l.job_name <> ALL ($2::text[])
        AND l.heartbeat_at <= coalesce($1::timestamptz, clock_timestamp()) - $7::bigint * interval '1 microsecond'
    RETURNING l.job_name
), alive AS MATERIALIZED (
    SELECT b.job_name FROM windlass.background_job_leases b
    WHERE b.job_name = ANY ($2::text[]) AND b.held_by_worker_id IS NOT NULL
        AND (b.heartbeat_at > coalesce($1::timestamptz, clock_timestamp()) OR (b.term = $5::uuid
            AND b.heartbeat_at + b.expiry_micros * interval '1 microsecond' > coalesce($1::timestamptz, clock_timestamp())))
    ORDER BY b.job_name FOR NO KEY UPDATE
), free AS MATERIALIZED (
    SELECT b.job_name FROM windlass.background_job_leases b
    WHERE b.job_name = ANY ($2::text[]) AND b.term <> $5::uuid AND (SELECT count(*) FROM alive) >= 0
        AND (b.held_by_worker_id IS NULL
            OR b.heartbeat_at + b.expiry_micros * interval '1 microsecond' <= coalesce($1::timestamptz, clock_timestamp()))
    ORDER BY b.job_name FOR UPDATE SKIP LOCKED
), clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now FROM (SELECT count(*) FROM free) AS locked
), made AS (
    INSERT INTO windlass.background_job_leases AS l (
        job_name, held_by_worker_id, lease_acquired_at, heartbeat_at, fence, term, expiry_micros
    )
    SELECT fresh.duty, $4::uuid, clock.now, clock.now,
        greatest(1, round(extract(epoch FROM clock.now) * 1000000)::bigint), $5::uuid, fresh.expiry
    FROM fresh, room, clock WHERE fresh.nth <= room.places + (SELECT count(*) FROM forgotten)
    ORDER BY fresh.duty COLLATE "C"
    ON CONFLICT DO NOTHING
    RETURNING l.job_name, l.fence, l.metadata
), begun AS (
    UPDATE windlass.background_job_leases l
    SET held_by_worker_id = $4::uuid, lease_acquired_at = clock.now, heartbeat_at = clock.now,
        fence = greatest(l.fence + 1, round(extract(epoch FROM clock.now) * 1000000)::bigint), term = $5::uuid,
        expiry_micros = asked.expiry, step_down = false,
        takeovers = l.takeovers + CASE WHEN l.held_by_worker_id IS NOT NULL THEN 1 ELSE 0 END
    FROM free, asked, clock WHERE l.job_name = free.job_name AND asked.duty = l.job_name
    RETURNING l.job_name, l.fence, l.metadata
), beaten AS (
    UPDATE windlass.background_job_leases l SET heartbeat_at = clock.now
    FROM alive, clock WHERE l.job_name = alive.job_name
    RETURNING l.job_name, l.fence, l.metadata, l.term = $5::uuid AS is_ours, l.held_by_worker_id, l.heartbeat_at, l.expiry_micros
)
SELECT coalesce(m.fence, b.fence, CASE WHEN k.is_ours THEN k.fence END),
    coalesce(m.metadata, b.metadata, k.metadata)::text,
    coalesce(f.nth > room.places + (SELECT count(*) FROM forgotten), false), coalesce(s.term = $5::uuid, false),
    coalesce(k.held_by_worker_id, s.held_by_worker_id),
    coalesce(k.expiry_micros, s.expiry_micros) - greatest(0, round(extract(epoch FROM
        clock.now - coalesce(k.heartbeat_at, s.heartbeat_at)) * 1000000)::bigint)
FROM seen s CROSS JOIN room CROSS JOIN clock
LEFT JOIN fresh f ON f.duty = s.duty LEFT JOIN made m ON m.job_name = s.duty
LEFT JOIN begun b ON b.job_name = s.duty LEFT JOIN beaten k ON k.job_name = s.duty
ORDER BY s.place;
