-- step_down: asks the holder of a lease to step down, and notifies it. Returns whether the request is new,
-- or no row if the lease is unknown.
-- $1 now, or null for the server's clock   $2 duty   $3 channel   $4 prefix of a message about a lease
WITH asked AS (
    UPDATE windlass.background_job_leases l SET step_down = true
    WHERE l.job_name = $2::text AND NOT l.step_down AND l.held_by_worker_id IS NOT NULL
        AND l.heartbeat_at + l.expiry_micros * interval '1 microsecond' > coalesce($1::timestamptz, clock_timestamp())
    RETURNING l.job_name
), told AS MATERIALIZED (
    SELECT job_name, pg_notify($3::text, $4::text || job_name) FROM asked
)
SELECT EXISTS (SELECT 1 FROM told) FROM windlass.background_job_leases WHERE job_name = $2::text;
