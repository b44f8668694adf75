-- set_priority: a waiting job gets another priority; never a running one. Without a share it has the empty one where others have
-- shares.
-- $1 id   $2 priority
UPDATE windlass.delayed_jobs j
SET priority = $2::integer, share = coalesce(j.share, (SELECT '' FROM windlass.queues q WHERE q.name = j.queue AND q.shares_since IS NOT NULL))
WHERE id = $1::bigint AND locked_by IS NULL;
