-- discard: a dead letter is deleted with its attempts.
-- $1 id
WITH gone AS (
    DELETE FROM windlass.delayed_jobs_dlq WHERE id = $1::bigint RETURNING id
)
DELETE FROM windlass.attempts a USING gone g WHERE a.job = g.id;
