-- forget_fairness_keys: queues that began long ago to have jobs with fairness keys, and have none now, take turns no more. The catalogue is locked
-- before the queues, as whoever declares them does it.
-- $1 now, or null for the server's clock   $2 how long ago it must have begun, in microseconds
WITH idle AS MATERIALIZED (
    SELECT q.name FROM windlass.queues q
    WHERE q.fairness_keys_since < coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond' AND NOT EXISTS (
        SELECT 1 FROM generate_series(0, 10) AS p (priority) CROSS JOIN LATERAL (
            SELECT 1 FROM windlass.delayed_jobs j
            WHERE j.queue = q.name AND j.priority = p.priority AND j.fairness_key > '' AND j.fairness_key IS NOT NULL AND j.gate IS NULL
            LIMIT 1
        ) AS one
    )
), locked AS MATERIALIZED (
    SELECT version FROM windlass.catalogue WHERE EXISTS (SELECT 1 FROM idle) FOR UPDATE
), changed AS (
    UPDATE windlass.queues q SET fairness_keys_since = NULL
    WHERE EXISTS (SELECT 1 FROM locked) AND q.name IN (SELECT name FROM idle) AND q.fairness_keys_since IS NOT NULL
    RETURNING q.name
)
UPDATE windlass.catalogue SET version = version + 1 + floor(random() * 1e9)::bigint WHERE EXISTS (SELECT 1 FROM changed);
