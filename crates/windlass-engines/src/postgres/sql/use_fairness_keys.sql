-- use_fairness_keys: stores that these queues have jobs with fairness keys from now on. It locks the
-- catalogue before the queues, as declaring queues does.
-- $1 queues   $2 now, or null for the server's clock
WITH wanted AS MATERIALIZED (
    SELECT name FROM windlass.queues WHERE name = ANY ($1::text[]) AND fairness_keys_since IS NULL
), locked AS MATERIALIZED (
    SELECT version FROM windlass.catalogue WHERE EXISTS (SELECT 1 FROM wanted) FOR UPDATE
), changed AS (
    UPDATE windlass.queues q SET fairness_keys_since = coalesce($2::timestamptz, now())
    WHERE EXISTS (SELECT 1 FROM locked) AND q.name = ANY ($1::text[]) AND q.fairness_keys_since IS NULL
    RETURNING q.name
)
UPDATE windlass.catalogue SET version = version + 1 + floor(random() * 1e9)::bigint WHERE EXISTS (SELECT 1 FROM changed);
