-- step_down: ask the holder of a lease to give way, and wake it. Answers whether that is news, if the lease is known at all.
-- $1 now, or null for the server's clock   $2 duty   $3 channel   $4 what a message about a lease begins with
WITH asked AS (
    UPDATE windlass.background_job_leases l SET step_down = true
    WHERE l.job_name = $2::text AND NOT l.step_down AND l.held_by_worker_id IS NOT NULL
        AND l.heartbeat_at + l.expiry_micros * interval '1 microsecond' > coalesce($1::timestamptz, clock_timestamp())
    RETURNING l.job_name
), told AS MATERIALIZED (
    SELECT job_name, pg_notify($3::text, $4::text || job_name) FROM asked
)
SELECT EXISTS (SELECT 1 FROM told) FROM windlass.background_job_leases WHERE job_name = $2::text;
