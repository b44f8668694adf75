-- insert_attempts: stores attempts whose jobs have not ended.
-- by position: $1 jobs   $2 numbers   $3 workers   $4 started at   $5 ended at   $6 endings   $7 errors
-- $8 outputs
INSERT INTO windlass.attempts (job, number, worker, started_at, ended_at, ending, error, output)
SELECT i.job, i.number, i.worker, i.started_at, i.ended_at, i.ending, i.error, i.output
FROM unnest($1::bigint[], $2::integer[], $3::uuid[], $4::timestamptz[], $5::timestamptz[], $6::text[], $7::text[], $8::text[])
    AS i (job, number, worker, started_at, ended_at, ending, error, output);
