-- save_breaker: what became of a breaker, if nobody wrote since it was read; version 0 makes a new one. Answers whether it
-- was written, and else whether that was for want of room.
-- $1 name   $2 the version that was read   $3 state   $4 at most so many breakers
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
