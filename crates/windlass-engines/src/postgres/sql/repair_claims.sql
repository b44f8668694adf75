-- repair_claims: running jobs that no claim knows of get one, so that they are taken back if nobody runs them: whoever wrote
-- their rows wrote no claim. One without a token gets a token, and its claim the next time. Looks through a stretch of
-- numbers. Answers where it ended, if not behind the last, and how many it found.
-- $1 after this number   $2 so many rows
-- plan: sorts: a stretch of numbers, which has a limit
WITH stretch AS MATERIALIZED (
    SELECT id, token, locked_by, locked_at FROM windlass.delayed_jobs
    WHERE id > $1::bigint ORDER BY id LIMIT $2::bigint
), nameless AS (
    UPDATE windlass.delayed_jobs SET token = md5(random()::text || id)::uuid
    WHERE id = ANY (ARRAY (SELECT id FROM stretch WHERE locked_by IS NOT NULL AND token IS NULL))
        AND locked_by IS NOT NULL AND token IS NULL
    RETURNING id
), strays AS MATERIALIZED (
    SELECT s.token, min(s.locked_by::text)::uuid AS worker, min(s.locked_at) AS at, array_agg(s.id) AS jobs FROM stretch s
    WHERE s.locked_by IS NOT NULL AND s.token IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM windlass.claims c WHERE c.token = s.token AND s.id = ANY (c.jobs))
    GROUP BY 1
), mended AS (
    INSERT INTO windlass.claims AS c (token, at, worker, held, jobs)
    SELECT token, coalesce(at, now()), worker, cardinality(jobs), jobs FROM strays ORDER BY token
    ON CONFLICT (token) DO UPDATE SET worker = coalesce(c.worker, excluded.worker),
        held = CASE WHEN c.jobs IS NULL THEN excluded.held ELSE c.held + excluded.held END,
        jobs = coalesce(c.jobs, '{}') || excluded.jobs
    RETURNING 1
)
SELECT (SELECT max(id) FROM stretch HAVING count(*) >= $2::bigint),
    (SELECT count(*) FROM nameless) + coalesce((SELECT sum(cardinality(jobs)) FROM strays), 0)::bigint;
