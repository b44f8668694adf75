-- save_pause: pauses or resumes a queue, and notifies the workers that serve it.
-- $1 queue   $2 the pause, or null   $3 channel
WITH changed AS (
    UPDATE windlass.queues SET pause = $2::text WHERE name = $1::text RETURNING name
), newer AS (
    UPDATE windlass.catalogue SET version = version + 1 + floor(random() * 1e9)::bigint
)
SELECT pg_notify($3::text, name) FROM changed WHERE $2::text IS NULL;
