-- behind_gate: the oldest jobs behind a gate.
-- $1 gate   $2 at most so many
SELECT id FROM windlass.delayed_jobs WHERE gate = $1::text ORDER BY scheduled_at, id LIMIT $2::integer;
