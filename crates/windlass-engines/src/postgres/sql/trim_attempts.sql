-- trim_attempts: keeps only the newest attempts of a job that is retried for very long.
-- $1 job   $2 how many stay
DELETE FROM windlass.attempts WHERE job = $1::bigint AND id <= (
    SELECT id FROM windlass.attempts WHERE job = $1::bigint ORDER BY id DESC OFFSET $2::integer LIMIT 1
);
