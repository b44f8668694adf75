-- expired: lists waiting jobs that were never started and have expired.
-- $1 now, or null for the server's clock   $2 limit
SELECT id FROM windlass.delayed_jobs
WHERE expires_at IS NOT NULL AND NOT started AND locked_at IS NULL AND attempts = 0
    AND expires_at <= coalesce($1::timestamptz, now())
ORDER BY expires_at LIMIT $2::integer;
