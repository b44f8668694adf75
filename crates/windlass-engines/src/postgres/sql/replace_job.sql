-- replace_job: a waiting job gets a new payload, due time, priority, expiry and label; never a running one. Without a fairness key it has the
-- empty one if its queue takes turns.
-- $1 id   $2 payload   $3 due   $4 priority   $5 expires at   $6 options
UPDATE windlass.delayed_jobs
SET payload = $2::text::json, scheduled_at = $3::timestamptz, priority = $4::integer, expires_at = $5::timestamptz,
    options = $6::text,
    fairness_key = coalesce(fairness_key, (SELECT '' FROM windlass.queues q WHERE q.name = delayed_jobs.queue AND q.fairness_keys_since IS NOT NULL))
WHERE id = $1::bigint AND locked_by IS NULL;
