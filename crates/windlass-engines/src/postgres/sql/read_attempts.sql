-- read_attempts: lists the last attempts of a job that did not end it, newest first.
-- $1 job   $2 limit
SELECT number, worker, started_at, ended_at, ending, error, output FROM windlass.attempts
WHERE job = $1::bigint ORDER BY id DESC LIMIT $2::integer;
