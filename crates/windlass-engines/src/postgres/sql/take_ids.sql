-- take_ids: takes ids for new jobs, in order, and reads the server's clock. A caller that waited for a key
-- enqueues its jobs at this time, and not when its transaction began.
-- $1 how many
SELECT array_agg(nextval('windlass.job_ids')), statement_timestamp() FROM generate_series(1, $1::bigint);
