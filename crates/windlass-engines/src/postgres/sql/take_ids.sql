-- take_ids: numbers for new jobs, in order, and the server's clock. A caller that waited for a key enqueues them now, and
-- not when its transaction began.
-- $1 how many
SELECT array_agg(nextval('windlass.job_ids')), statement_timestamp() FROM generate_series(1, $1::bigint);
