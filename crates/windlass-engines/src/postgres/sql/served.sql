-- served: lists the queues that live workers serve, and the types that they handle.
-- $1 now, or null for the server's clock
SELECT queues, types FROM windlass.workers
WHERE died IS NULL AND expires_at > coalesce($1::timestamptz, now());
