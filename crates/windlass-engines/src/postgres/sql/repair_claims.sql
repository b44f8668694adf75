-- repair_claims: stores claims for running jobs that no claim knows of, so that they are rescued if no
-- worker runs them: another program wrote their rows and no claim. A job without a token gets a token, and
-- its claim the next time. The statement scans a range of ids. Returns the last id it read, or null at the
-- end of the table, and how many jobs it found.
-- $1 after this id   $2 number of rows
-- plan: sorts: a range of ids, which has a limit
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
