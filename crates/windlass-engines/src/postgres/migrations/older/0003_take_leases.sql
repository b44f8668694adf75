-- take_leases: leases that nobody holds or whose heartbeat is older than their expiry, as core's `StoredLease::take` decides.
-- Guarded by `leases::leases_go_as_core_decides`. The clock is read under the row's lock: who waited for it would otherwise
-- judge a heartbeat by a time before it. A row that is as it should be is not written. Of a lease that is not the caller's the
-- answer says what stood there when the statement began; if that was free, somebody was faster, and the caller asks again.
-- $1 now, or null for the server's clock   by position: $2 duties   $3 expiries in microseconds   $4 worker   $5 term
-- $6 leases of at most so many duties are kept
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS a (duty, expiry, place)
), fresh AS MATERIALIZED (
    SELECT count(*) AS duties FROM asked
    WHERE NOT EXISTS (SELECT 1 FROM windlass.background_job_leases b WHERE b.job_name = asked.duty)
), room AS MATERIALIZED (
    SELECT duties = 0 OR duties + (SELECT count(*) FROM windlass.background_job_leases) <= $6::bigint AS is_there FROM fresh
), taken AS (
    INSERT INTO windlass.background_job_leases AS l (
        job_name, held_by_worker_id, lease_acquired_at, heartbeat_at, fence, term, expiry_micros
    )
    SELECT asked.duty, $4::uuid, clock.now, clock.now,
        greatest(1, round(extract(epoch FROM clock.now) * 1000000)::bigint), $5::uuid, asked.expiry
    FROM asked, room, (SELECT coalesce($1::timestamptz, clock_timestamp())) AS clock (now)
    WHERE room.is_there ORDER BY asked.duty COLLATE "C"
    ON CONFLICT (job_name) DO UPDATE SET (
        held_by_worker_id, lease_acquired_at, heartbeat_at, fence, term, expiry_micros, takeovers, step_down
    ) = (
        SELECT
            CASE WHEN begins THEN $4::uuid ELSE l.held_by_worker_id END,
            CASE WHEN begins THEN now ELSE l.lease_acquired_at END,
            CASE WHEN begins OR l.heartbeat_at > now OR (l.term = $5::uuid AND is_held) THEN now ELSE l.heartbeat_at END,
            CASE WHEN begins THEN greatest(l.fence + 1, round(extract(epoch FROM now) * 1000000)::bigint) ELSE l.fence END,
            CASE WHEN begins THEN $5::uuid ELSE l.term END,
            CASE WHEN begins THEN excluded.expiry_micros ELSE l.expiry_micros END,
            l.takeovers + CASE WHEN begins AND l.held_by_worker_id IS NOT NULL THEN 1 ELSE 0 END,
            l.step_down AND NOT begins
        FROM (SELECT coalesce($1::timestamptz, clock_timestamp())) AS clock (now),
            LATERAL (
                SELECT l.held_by_worker_id IS NOT NULL
                    AND l.heartbeat_at + l.expiry_micros * interval '1 microsecond' > now
            ) AS a (is_held),
            LATERAL (SELECT NOT is_held AND l.term <> $5::uuid) AS b (begins)
    )
    WHERE (l.term = $5::uuid) = (
            l.held_by_worker_id IS NOT NULL
            AND l.heartbeat_at + l.expiry_micros * interval '1 microsecond' > coalesce($1::timestamptz, clock_timestamp())
        )
        OR (l.held_by_worker_id IS NOT NULL AND l.heartbeat_at > coalesce($1::timestamptz, clock_timestamp()))
    RETURNING l.job_name, l.held_by_worker_id, l.fence, l.term, l.heartbeat_at, l.expiry_micros
)
SELECT room.is_there, t.fence, t.term = $5::uuid, t.held_by_worker_id, s.held_by_worker_id, s.term = $5::uuid,
    coalesce(t.expiry_micros, s.expiry_micros) - greatest(0, round(extract(epoch FROM
        coalesce($1::timestamptz, clock_timestamp()) - coalesce(t.heartbeat_at, s.heartbeat_at)) * 1000000)::bigint)
FROM asked CROSS JOIN room
LEFT JOIN taken t ON t.job_name = asked.duty
LEFT JOIN windlass.background_job_leases s ON s.job_name = asked.duty
ORDER BY asked.place;
