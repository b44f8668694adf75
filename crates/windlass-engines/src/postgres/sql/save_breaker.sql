-- save_breaker: stores the new state of a breaker, if no process has changed it since it was read; version
-- 0 creates a breaker. Returns whether it was stored, and if not, whether the limit of breakers was the
-- reason.
-- $1 name   $2 the version that was read   $3 state   $4 maximum number of breakers
WITH made AS (
    INSERT INTO windlass.job_breakers (name, version, state)
    SELECT $1::text, 1, $3::text
    WHERE $2::bigint = 0 AND (SELECT count(*) FROM windlass.job_breakers) < $4::bigint
    ON CONFLICT DO NOTHING RETURNING 1
), changed AS (
    UPDATE windlass.job_breakers SET version = version + 1, state = $3::text
    WHERE name = $1::text AND version = $2::bigint RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM made) OR EXISTS (SELECT 1 FROM changed),
    $2::bigint = 0 AND (SELECT count(*) FROM windlass.job_breakers) >= $4::bigint;
