-- save_shut: shuts a queue, or opens it again.
-- $1 queue   $2 shut
WITH changed AS (
    UPDATE windlass.queues SET shut = $2::boolean WHERE name = $1::text
)
UPDATE windlass.catalogue SET version = version + 1 + floor(random() * 1e9)::bigint;
