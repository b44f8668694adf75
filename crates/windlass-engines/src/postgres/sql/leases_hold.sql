-- leases_hold: returns for each of these terms whether it still holds.
-- $1 now, or null for the server's clock   by position: $2 duties   $3 fences   $4 terms
SELECT EXISTS (
    SELECT 1 FROM windlass.background_job_leases l
    WHERE l.job_name = asked.duty AND l.fence = asked.fence AND l.term = asked.term AND l.held_by_worker_id IS NOT NULL
        AND l.heartbeat_at + l.expiry_micros * interval '1 microsecond' > coalesce($1::timestamptz, clock_timestamp())
)
FROM unnest($2::text[], $3::bigint[], $4::uuid[]) WITH ORDINALITY AS asked (duty, fence, term, place) ORDER BY place;
