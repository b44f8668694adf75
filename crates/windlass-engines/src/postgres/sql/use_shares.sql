-- use_shares: from now on these queues have jobs with shares.
-- $1 queues   $2 now, or null for the server's clock
WITH changed AS (
    UPDATE windlass.queues q SET shares_since = coalesce($2::timestamptz, now())
    WHERE q.name = ANY ($1::text[]) AND q.shares_since IS NULL
    RETURNING q.name
)
UPDATE windlass.catalogue SET version = version + 1 + floor(random() * 1e9)::bigint WHERE EXISTS (SELECT 1 FROM changed);
