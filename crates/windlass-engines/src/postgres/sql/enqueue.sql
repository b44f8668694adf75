-- enqueue: enqueues jobs without keys, all under one receipt. Stores nothing if the request was answered
-- before, or if the queues and types are no longer those that the caller decided by. A receipt is valid for
-- an hour. Returns the version of the catalogue, whether the jobs were stored, and their ids.
-- $1 now, or null for the server's clock   $2 request   $3 version of the catalogue
-- $4 answers, if some were refused
-- $5 no worker needs a notification   then by position: $6 queues   $7 types   $8 priorities   $9 payloads
-- $10 due at, or null   $11 else due in microseconds   $12 expires at   $13 else expires in
-- $14 correlations
-- $15 groups   $16 tags   $17 options   $18 maximum attempts
-- $19 fairness keys; fewer if the last jobs have none
-- plan: sorts: the jobs of one request, so that those of one priority lie together
WITH guard AS MATERIALIZED (
    SELECT version, coalesce($1::timestamptz, now()) AS at FROM windlass.catalogue
), input AS MATERIALIZED (
    SELECT nextval('windlass.job_ids') AS id, d.at, i.*,
        coalesce(i.due_at, d.at + i.due_in * interval '1 microsecond') AS due
    FROM guard d, unnest(
        $6::text[], $7::text[], $8::smallint[], $9::text[], $10::timestamptz[], $11::bigint[], $12::timestamptz[],
        $13::bigint[], $14::text[], $15::text[], $16::text[], $17::text[], $18::integer[], $19::text[]
    ) AS i (
        queue, job_type, priority, payload, due_at, due_in, expires_at,
        expires_in, {carried}, max_attempts, fairness_key
    )
    WHERE d.version = $3::bigint
), receipt AS MATERIALIZED (
    INSERT INTO windlass.receipts (request, at, ids, answers)
    SELECT $2::uuid, at, (SELECT array_agg(id) FROM input), $4::text FROM guard WHERE version = $3::bigint
    ON CONFLICT (request) DO UPDATE SET at = excluded.at, ids = excluded.ids, answers = excluded.answers
    WHERE receipts.at <= excluded.at - interval '1 hour'
    RETURNING true AS stored
), stored AS (
    INSERT INTO windlass.delayed_jobs (
        id, scheduled_at, created_at, expires_at, max_attempts, priority, queue, job_type, payload,
        {carried}, fairness_key
    )
    SELECT id, due, at, coalesce(expires_at, at + expires_in * interval '1 microsecond'), max_attempts, priority,
        queue, job_type, payload::json, {carried}, fairness_key
    -- Jobs that are claimed together lie together: otherwise a claim of one priority reads a page for every
    -- few rows.
    FROM receipt, input ORDER BY queue, priority, id
), counted AS (
    INSERT INTO windlass.count_deltas (job_type, queue, minute, waiting, enqueued, quiet)
    SELECT job_type, queue, floor(extract(epoch FROM minute) / 60)::bigint, n, n, $5::boolean FROM (
        SELECT job_type, queue, date_trunc('minute', due) AS minute, count(*) AS n
        FROM receipt, input GROUP BY 1, 2, 3
    ) AS stored_by_minute
)
SELECT version, coalesce((SELECT stored FROM receipt), false), (SELECT array_agg(id) FROM input) FROM guard;
