-- waiting_in: lists jobs of a queue that wait, with or without a gate.
-- $1 queue   $2 limit
-- plan: cold: an operator purges a queue, a batch at a time
(SELECT id FROM windlass.delayed_jobs
    WHERE locked_at IS NULL AND gate IS NULL AND queue = $1::text LIMIT $2::integer)
UNION ALL
(SELECT id FROM windlass.delayed_jobs WHERE gate IS NOT NULL AND queue = $1::text LIMIT $2::integer)
LIMIT $2::integer;
