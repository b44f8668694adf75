-- renew_leases: stores heartbeats of leases, each only if that very term still holds. It locks rows by
-- name, as all statements do, and only with the lock that an update of other columns needs: it does not
-- wait for a caller that checks a term in a transaction of its own.
-- Returns for each whether it was renewed, and whether its holder was asked to step down.
-- It is on disk before it is answered, though other heartbeats on this connection are not: otherwise a
-- server that crashes would forget it, and give the lease away while its holder still trusts it.
-- $1 now, or null for the server's clock   by position: $2 duties   $3 fences   $4 terms
-- $5 metadata, null to keep them
-- plan: sorts: the leases of one request
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($2::text[], $3::bigint[], $4::uuid[], $5::text[]) WITH ORDINALITY
        AS a (duty, fence, term, metadata, place)
), locked AS MATERIALIZED (
    SELECT b.job_name FROM windlass.background_job_leases b WHERE b.job_name = ANY ($2::text[])
    ORDER BY b.job_name FOR NO KEY UPDATE
), renewed AS (
    UPDATE windlass.background_job_leases l
    SET heartbeat_at = coalesce($1::timestamptz, clock_timestamp()), metadata = coalesce(asked.metadata::json, l.metadata)
    FROM asked, locked
    WHERE l.job_name = locked.job_name AND l.job_name = asked.duty AND l.fence = asked.fence AND l.term = asked.term
        AND l.held_by_worker_id IS NOT NULL
        AND l.heartbeat_at + l.expiry_micros * interval '1 microsecond' > coalesce($1::timestamptz, clock_timestamp())
    RETURNING l.job_name, l.step_down
)
SELECT r.job_name IS NOT NULL, coalesce(r.step_down, false)
FROM (SELECT set_config('synchronous_commit', 'on', true)) AS durable CROSS JOIN asked LEFT JOIN renewed r ON r.job_name = asked.duty ORDER BY asked.place;
