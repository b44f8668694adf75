-- invalid_priority: lists jobs that wait under a priority that no claim reads; it reads the two ends of the
-- index of claims.
-- $1 queues   $2 limit
(SELECT id FROM windlass.delayed_jobs
    WHERE locked_at IS NULL AND gate IS NULL AND queue = ANY ($1::text[]) AND priority > 10 LIMIT $2::integer)
UNION ALL
(SELECT id FROM windlass.delayed_jobs
    WHERE locked_at IS NULL AND gate IS NULL AND queue = ANY ($1::text[]) AND priority < 0 LIMIT $2::integer)
LIMIT $2::integer;
