-- insert_attempts: attempts after which their jobs go on.
-- $1 now   by position: $2 jobs   $3 numbers   $4 workers   $5 started at   $6 endings   $7 errors   $8 outputs
INSERT INTO windlass.attempts (job, number, worker, started_at, ended_at, ending, error, output)
SELECT i.job, i.number, i.worker, i.started_at, $1::timestamptz, i.ending, i.error, i.output
FROM unnest($2::bigint[], $3::integer[], $4::uuid[], $5::timestamptz[], $6::text[], $7::text[], $8::text[])
    AS i (job, number, worker, started_at, ending, error, output);
