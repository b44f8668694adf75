-- claim_suspect: gives the most urgent due suspect of a queue to a live worker: a job whose worker died
-- while it held the job. After the death of a fleet there are many suspects: the statement reads them in
-- order, one priority after another. Returns the same columns as `claim`.
-- $1 now, or null for the server's clock   $2 worker   $3 token   $4 version of the catalogue   $5 queue
-- $6 types, or null for all   $7 maximum number of crashes
WITH guard AS MATERIALIZED (
    SELECT version, at, EXISTS (SELECT 1 FROM windlass.workers WHERE id = $2::uuid AND died IS NULL) AS alive
    FROM (SELECT version, coalesce($1::timestamptz, now()) AS at FROM windlass.catalogue) AS c
), picked AS MATERIALIZED (
    SELECT job.id FROM guard CROSS JOIN generate_series(0, 10) AS p (priority) CROSS JOIN LATERAL (
        SELECT j.id FROM windlass.delayed_jobs j
        WHERE j.gate = 'suspect' AND j.queue = $5::text AND j.priority = p.priority::smallint AND j.scheduled_at <= guard.at
            AND ($6::text[] IS NULL OR j.job_type = ANY ($6::text[])) AND j.crashes <= $7::integer
        ORDER BY j.scheduled_at, j.id
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS job
    WHERE guard.alive AND guard.version = $4::bigint
    LIMIT 1
), spent AS MATERIALIZED (
    INSERT INTO windlass.claims (token, at, worker, held, jobs)
    SELECT $3::uuid, guard.at, $2::uuid, 1, ARRAY[picked.id] FROM guard, picked
    ON CONFLICT DO NOTHING
    RETURNING token
), taken AS (
    UPDATE windlass.delayed_jobs j
    SET locked_at = d.at, locked_by = $2::uuid, token = $3::uuid, attempts = least(j.attempts, 2147483646) + 1, gate = NULL, boosted = false
    FROM guard d
    WHERE j.id = ANY (ARRAY (SELECT id FROM picked)) AND EXISTS (SELECT 1 FROM spent)
    RETURNING j.*, j.ctid AS place
), counted AS (
    INSERT INTO windlass.count_deltas (job_type, queue, parked, running)
    SELECT job_type, queue, - count(*), count(*) FROM taken GROUP BY 1, 2
)
SELECT d.version, d.at, d.alive, NULL::bigint[],
    {job t}, t.boosted, t.place
FROM guard d LEFT JOIN taken t ON true;
