-- enqueue_many: enqueues jobs in the caller's own transaction. Returns the outcome of each.
-- $1 jobs as JSON   $2 request, or null for no receipt   $3 now, or null for the server's clock
-- plan: sorts: the jobs of one request
SELECT answer, id, why, refusal::text FROM windlass.enqueue_many($1::text::json, $2::uuid, $3::timestamptz)
ORDER BY position;
