-- take_ids: numbers for new jobs, in order.
-- $1 how many
SELECT array_agg(nextval('windlass.job_ids')) FROM generate_series(1, $1::bigint);
