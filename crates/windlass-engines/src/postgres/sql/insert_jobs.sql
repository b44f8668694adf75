-- insert_jobs: stores new jobs under ids that were taken before.
-- $1 now, or null for the server's clock   by position: $2 ids   $3 keys   $4 queues   $5 types
-- $6 priorities
-- $7 payloads   $8 due at, or null   $9 else due in microseconds   $10 expires at   $11 else expires in
-- $12 correlations   $13 groups   $14 tags   $15 options   $16 maximum attempts   $17 fairness keys
-- $18 ordering keys
-- $19 gates
INSERT INTO windlass.delayed_jobs (
    id, scheduled_at, created_at, expires_at, max_attempts, priority, queue, job_type, payload, key,
    {carried}, fairness_key, ordering_key, gate
)
SELECT i.id, coalesce(i.due_at, c.at + i.due_in * interval '1 microsecond'), c.at,
    coalesce(i.expires_at, c.at + i.expires_in * interval '1 microsecond'), i.max_attempts, i.priority,
    i.queue, i.job_type, i.payload::json, i.key, {carried i},
    i.fairness_key, i.ordering_key, i.gate
FROM (SELECT coalesce($1::timestamptz, now()) AS at) AS c, unnest(
    $2::bigint[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::text[], $8::timestamptz[], $9::bigint[],
    $10::timestamptz[], $11::bigint[], $12::text[], $13::text[], $14::text[], $15::text[], $16::integer[],
    $17::text[], $18::text[], $19::text[]
) AS i (
    id, key, queue, job_type, priority, payload, due_at, due_in,
    expires_at, expires_in, {carried}, max_attempts,
    fairness_key, ordering_key, gate
);
