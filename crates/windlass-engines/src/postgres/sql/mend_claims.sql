-- mend_claims: running jobs that no claim knows of get one, so that they are taken back if nobody runs them: whoever wrote
-- their rows wrote no claim. Looks through a stretch of numbers. Answers where it ended, if not behind the last, and how many
-- it found.
-- $1 after this number   $2 so many rows
WITH stretch AS MATERIALIZED (
    SELECT id, token, locked_by, locked_at FROM windlass.delayed_jobs
    WHERE id > $1::bigint ORDER BY id LIMIT $2::bigint
), strays AS MATERIALIZED (
    SELECT s.token, s.locked_by, min(s.locked_at) AS at, array_agg(s.id) AS jobs FROM stretch s
    WHERE s.locked_by IS NOT NULL AND s.token IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM windlass.claims c WHERE c.token = s.token AND c.jobs IS NOT NULL)
    GROUP BY 1, 2
), mended AS (
    INSERT INTO windlass.claims AS c (token, at, worker, held, jobs)
    SELECT DISTINCT ON (token) token, coalesce(at, now()), locked_by, cardinality(jobs), jobs FROM strays ORDER BY token
    ON CONFLICT (token) DO UPDATE SET worker = excluded.worker, held = excluded.held, jobs = excluded.jobs
        WHERE c.jobs IS NULL
    RETURNING held
)
SELECT (SELECT max(id) FROM stretch HAVING count(*) >= $2::bigint), coalesce((SELECT sum(held) FROM mended), 0)::bigint;
