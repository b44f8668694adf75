-- list_rollups: lists a page of rollups, by minute, queue and type.
-- $1 $2 $3 after this minute, queue and type   $4 last minute   $5 queue, or null   $6 type, or null
-- $7 limit
SELECT minute, queue, job_type, enqueued, started, succeeded, retried, dead, cancelled, waits, runs
FROM windlass.job_rollups
WHERE (minute, queue, job_type) > ($1::bigint, $2::text, $3::text) AND minute <= $4::bigint
    AND ($5::text IS NULL OR queue = $5::text) AND ($6::text IS NULL OR job_type = $6::text)
ORDER BY minute, queue, job_type LIMIT $7::integer;
