-- invalid_priority: jobs that wait under a priority that no claim asks for; two ends of the claims' own index.
-- $1 queues   $2 at most so many
(SELECT id FROM windlass.delayed_jobs
    WHERE locked_at IS NULL AND gate IS NULL AND queue = ANY ($1::text[]) AND priority > 10 LIMIT $2::integer)
UNION ALL
(SELECT id FROM windlass.delayed_jobs
    WHERE locked_at IS NULL AND gate IS NULL AND queue = ANY ($1::text[]) AND priority < 0 LIMIT $2::integer)
LIMIT $2::integer;
