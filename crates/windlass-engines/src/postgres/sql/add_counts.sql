-- add_counts: appends the changes of a transaction to the counts, for maintenance to fold.
-- by position: $1 types   $2 queues   $3 minutes in which the waiting jobs fall due   $4 waiting   $5 parked
-- $6 running
-- $7 dead letters   $8 enqueued   $9 succeeded   $10 retried   $11 dead   $12 cancelled   $13 started over
INSERT INTO windlass.count_deltas (
    job_type, queue, minute, waiting, parked, running, dead_letters, enqueued, succeeded, retried, dead, cancelled,
    started_over
)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::bigint[], $4::integer[], $5::integer[], $6::integer[], $7::integer[], $8::integer[],
    $9::integer[], $10::integer[], $11::integer[], $12::integer[], $13::integer[]
);
