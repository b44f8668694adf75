-- take_ids: numbers for new jobs, in order, and the server's clock: whoever waited for a key puts them in now, and not when the
-- transaction began.
-- $1 how many
SELECT array_agg(nextval('windlass.job_ids')), statement_timestamp() FROM generate_series(1, $1::bigint);
