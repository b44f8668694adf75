-- behind_gate: lists the oldest jobs behind a gate.
-- $1 gate   $2 limit
SELECT id FROM windlass.delayed_jobs WHERE gate = $1::text ORDER BY scheduled_at, id LIMIT $2::integer;
