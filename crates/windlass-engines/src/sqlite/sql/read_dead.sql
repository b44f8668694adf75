-- read_dead: reads one dead letter.
-- ?1 id
SELECT {job}, error, ended_at
FROM delayed_jobs_dlq WHERE id = ?1;
