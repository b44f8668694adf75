-- replace_job: a waiting job gets a new payload, due time, priority, expiry and label; never a running one.
-- $1 id   $2 payload   $3 due   $4 priority   $5 expires at   $6 options
UPDATE windlass.delayed_jobs
SET payload = $2::text::json, scheduled_at = $3::timestamptz, priority = $4::integer, expires_at = $5::timestamptz,
    options = $6::text
WHERE id = $1::bigint AND locked_by IS NULL;
