-- replace_job: stores a new payload, due time, priority, expiry and label of a waiting job; never of a
-- running one. A job without a fairness key gets the empty one if its queue has fairness keys.
-- $1 id   $2 payload   $3 due   $4 priority   $5 expires at   $6 options
UPDATE windlass.delayed_jobs
SET payload = $2::text::json, scheduled_at = $3::timestamptz, priority = $4::integer, expires_at = $5::timestamptz,
    options = $6::text,
    fairness_key = coalesce(fairness_key, (SELECT '' FROM windlass.queues q WHERE q.name = delayed_jobs.queue AND q.fairness_keys_since IS NOT NULL))
WHERE id = $1::bigint AND locked_by IS NULL;
