-- fairness_keys_due: lists the next fairness keys of each priority of a queue by name, at most $4 of them.
-- Each row has the due time and the id of the first waiting job of its key, if a job waits. The row with
-- the empty name stands for the jobs without a fairness key that are in the index. The row with a null name
-- is about the very first jobs of a priority: how many of them have no name at all, and when the last of
-- them falls due.
-- $1 now, or null for the server's clock   $2 queue   $3 types, or null for all   $4 limit for each priority
-- $5 how many of the very first jobs are read
-- by position: $6 priorities   $7 behind which fairness key
-- $8 and $9 due time and id where each priority starts
-- by position, for fairness keys with a known cursor: $10 priorities   $11 fairness keys
-- $12 and $13 due time and id where each starts
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, now()) AS at
), cursors AS MATERIALIZED (
    SELECT * FROM unnest($6::smallint[], $7::text[], $8::timestamptz[], $9::bigint[]) AS l (priority, behind, after_due, after_id)
), walk (priority, fairness_key, n) AS (
    SELECT priority, behind COLLATE "C", 0 FROM cursors
    UNION ALL
    SELECT w.priority, next.fairness_key, w.n + 1
    FROM walk w CROSS JOIN LATERAL (
        SELECT j.fairness_key FROM windlass.delayed_jobs j
        WHERE j.queue = $2::text AND j.priority = w.priority AND j.fairness_key > w.fairness_key AND j.fairness_key IS NOT NULL AND j.gate IS NULL
        ORDER BY j.fairness_key LIMIT 1
    ) AS next
    WHERE w.n < $4::integer
), lines AS (
    SELECT l.priority, l.fairness_key, coalesce(k.after_due, '-infinity') AS after_due, coalesce(k.after_id, 0) AS after_id
    FROM (
        SELECT priority, fairness_key FROM walk WHERE n > 0
        UNION ALL
        SELECT priority, '' FROM cursors
    ) AS l
    LEFT JOIN unnest($10::smallint[], $11::text[], $12::timestamptz[], $13::bigint[]) AS k (priority, fairness_key, after_due, after_id)
        ON k.priority = l.priority AND k.fairness_key = l.fairness_key
)
SELECT l.priority, l.fairness_key, first.scheduled_at, NULL::bigint, clock.at, first.id
FROM clock, lines l LEFT JOIN LATERAL (
    SELECT j.scheduled_at, j.id FROM windlass.delayed_jobs j
    WHERE j.locked_at IS NULL AND j.queue = $2::text AND j.priority = l.priority AND j.fairness_key = l.fairness_key AND j.fairness_key IS NOT NULL
        AND (j.scheduled_at, j.id) > (l.after_due, l.after_id)
        AND j.gate IS NULL AND ($3::text[] IS NULL OR j.job_type = ANY ($3::text[]))
    ORDER BY j.scheduled_at, j.id LIMIT 1
) AS first ON true
UNION ALL
SELECT l.priority, NULL, max(first.scheduled_at), count(*), clock.at, NULL
FROM clock, cursors l CROSS JOIN LATERAL (
    SELECT j.scheduled_at, j.fairness_key FROM windlass.delayed_jobs j
    WHERE j.locked_at IS NULL AND j.gate IS NULL AND j.queue = $2::text AND j.priority = l.priority
        AND (j.scheduled_at, j.id) > (l.after_due, l.after_id) AND j.scheduled_at <= clock.at
        AND ($3::text[] IS NULL OR j.job_type = ANY ($3::text[]))
    ORDER BY j.scheduled_at, j.id LIMIT $5::integer
) AS first
WHERE first.fairness_key IS NULL
GROUP BY l.priority, clock.at;
