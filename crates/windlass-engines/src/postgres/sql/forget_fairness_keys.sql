-- forget_fairness_keys: ends fairness in queues that got their first fairness key long ago and have no job
-- with a fairness key now. It locks the catalogue before the queues, as declaring queues does.
-- $1 now, or null for the server's clock   $2 minimum age of the first fairness key, in microseconds
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
