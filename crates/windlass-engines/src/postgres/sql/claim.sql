-- claim: gives ready jobs of one queue to a live worker, in the order of the ranges. The nested loop pulls
-- lazily: it stops at the limit and locks exactly the rows it takes, so that the next claimer finds the
-- rest. Locked rows do not move, so they are updated by their ctid. A token with a tombstone claims
-- nothing. Returns one row without a job if there is no job to claim, and the ids of the jobs it met that
-- have expired. It does not wait for the disk: if the server crashes in the next moment, the jobs wait
-- again, and their worker learns it by its token.
-- $1 now, or null for the server's clock   $2 worker   $3 token   $4 version of the catalogue   $5 queue
-- $6 types, or null for all   $7 limit   $8 boosted   $9 whether the token has claimed jobs already
-- the ranges, most urgent first: $10 priorities   $11 and $12 due time and id they start after
-- $13 due until
-- $14 whether to skip rows with an xmax, without testing their locks
WITH guard AS MATERIALIZED (
    SELECT version, at, set_config('synchronous_commit', 'off', true) = 'off'
        AND EXISTS (SELECT 1 FROM windlass.workers WHERE id = $2::uuid AND died IS NULL) AS alive
    FROM (SELECT version, coalesce($1::timestamptz, now()) AS at FROM windlass.catalogue) AS c
), picked AS MATERIALIZED (
    SELECT job.id, job.place, job.late
    FROM guard
    CROSS JOIN unnest($10::smallint[], $11::timestamptz[], $12::bigint[], $13::timestamptz[])
        AS span (priority, after_due, after_id, until)
    CROSS JOIN LATERAL (
        SELECT j.id, j.ctid AS place, j.attempts = 0 AND j.expires_at <= guard.at IS TRUE AS late FROM windlass.delayed_jobs j
        WHERE j.locked_at IS NULL AND j.gate IS NULL AND j.queue = $5::text AND j.priority = span.priority
            AND (j.scheduled_at, j.id) > (span.after_due, span.after_id)
            AND j.scheduled_at <= least(span.until, guard.at)
            AND ($6::text[] IS NULL OR j.job_type = ANY ($6::text[]))
            AND (NOT $14::boolean OR j.xmax IN ('0'::xid, j.xmin))
        ORDER BY j.scheduled_at, j.id
        LIMIT $7::integer
        FOR UPDATE SKIP LOCKED
    ) AS job
    WHERE guard.alive AND guard.version = $4::bigint
        AND NOT EXISTS (SELECT 1 FROM windlass.claims WHERE token = $3::uuid AND claim_tombstones)
    LIMIT $7::integer
), wanted AS MATERIALIZED (
    SELECT ids, cardinality(ids) AS n FROM (SELECT array_agg(id) AS ids FROM picked WHERE NOT late) AS p WHERE ids IS NOT NULL
), spent AS MATERIALIZED (
    INSERT INTO windlass.claims (token, at, worker, held, jobs)
    SELECT $3::uuid, guard.at, $2::uuid, wanted.n, wanted.ids FROM guard, wanted WHERE NOT $9::boolean
    ON CONFLICT DO NOTHING
    RETURNING token
), spent_before AS MATERIALIZED (
    UPDATE windlass.claims c SET held = c.held + wanted.n, jobs = coalesce(c.jobs, '{}') || wanted.ids FROM wanted
    WHERE $9::boolean AND c.token = $3::uuid AND NOT c.claim_tombstones
    RETURNING c.token
), taken AS (
    UPDATE windlass.delayed_jobs j
    SET locked_at = d.at, locked_by = $2::uuid, token = $3::uuid, attempts = least(j.attempts, 2147483646) + 1, boosted = $8::boolean
    FROM guard d
    WHERE j.ctid = ANY (ARRAY (SELECT place FROM picked WHERE NOT late))
        AND (EXISTS (SELECT 1 FROM spent) OR EXISTS (SELECT 1 FROM spent_before))
    RETURNING j.id, j.job_type, j.queue, j.priority, j.payload, j.created_at, j.scheduled_at, j.expires_at, j.key,
        {carried j}, j.attempts, j.failures, j.crashes, j.holds, j.progress, j.last_error, j.boosted,
        j.ctid AS place
), by_minute AS MATERIALIZED (
    -- The minute of a job that is due at minus infinity has no number.
    SELECT job_type, queue, date_trunc('minute', greatest(scheduled_at, to_timestamp(0))) AS minute, count(*) AS n FROM taken GROUP BY 1, 2, 3
), counted AS (
    INSERT INTO windlass.count_deltas (job_type, queue, minute, waiting, running)
    SELECT job_type, queue, floor(extract(epoch FROM minute) / 60)::bigint, - n, n FROM by_minute
), missed AS (
    -- These rows were picked, moved between snapshot and lock, and are not where they were.
    INSERT INTO windlass.claim_ends (token, jobs)
    SELECT m.token, m.n FROM (
        SELECT s.token, wanted.n - coalesce((SELECT sum(n) FROM by_minute), 0) AS n
        FROM wanted, (SELECT token FROM spent UNION ALL SELECT token FROM spent_before) AS s
    ) AS m WHERE m.n > 0
)
SELECT d.version, d.at, d.alive, (SELECT array_agg(id) FROM picked WHERE late),
    {job t}, t.boosted, t.place
FROM guard d LEFT JOIN taken t ON true;
