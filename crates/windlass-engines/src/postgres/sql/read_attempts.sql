-- read_attempts: the last attempts of a job after which it went on, newest first.
-- $1 job   $2 at most so many
SELECT number, worker, started_at, ended_at, ending, error, output FROM windlass.attempts
WHERE job = $1::bigint ORDER BY id DESC LIMIT $2::integer;
