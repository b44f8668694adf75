-- list_rollups: lists a page of rollups, by minute, queue and type.
-- ?1 ?2 ?3 after this minute, queue and type   ?4 last minute   ?5 queue, or null   ?6 type, or null
-- ?7 limit
SELECT minute, queue, job_type, enqueued, started, succeeded, retried, dead, cancelled, waits, runs
FROM job_rollups
WHERE (minute, queue, job_type) > (?1, ?2, ?3) AND minute <= ?4 AND queue = coalesce(?5, queue)
    AND job_type = coalesce(?6, job_type)
ORDER BY minute, queue, job_type LIMIT ?7;
