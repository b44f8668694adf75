-- save_pause: pause a queue or let it go on, and wake whoever serves it.
-- $1 queue   $2 the pause, or null   $3 channel
WITH changed AS (
    UPDATE windlass.queues SET pause = $2::text WHERE name = $1::text RETURNING name
), newer AS (
    UPDATE windlass.catalogue SET version = version + 1
)
SELECT pg_notify($3::text, name) FROM changed WHERE $2::text IS NULL;
