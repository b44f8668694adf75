-- request_cancel: asks a running job to stop, and notifies its worker; the first reason stays.
-- $1 id   $2 why   $3 channel
WITH asked AS (
    UPDATE windlass.delayed_jobs SET cancel_requested = coalesce(cancel_requested, $2::text)
    WHERE id = $1::bigint AND locked_by IS NOT NULL RETURNING token
)
SELECT token, pg_notify($3::text, 'cancel') FROM asked;
