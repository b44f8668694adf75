-- register: registers a worker. Returns nothing if its id is known already.
-- $1 now, or null for the server's clock   $2 id   $3 host   $4 pid   $5 version   $6 queues   $7 types
-- $8 its lease in microseconds   $9 duties   $10 its ring position   $11 slots
INSERT INTO windlass.workers (
    id, since, seen_at, expires_at, beats, lease_micros, pid, host, version, queues, types, duties, place, slots
)
SELECT $2::uuid, at, at, at + $8::bigint * interval '1 microsecond', 0, $8::bigint, $4::bigint, $3::text, $5::text,
    $6::text[], $7::text[], $9::text[], $10::bigint, $11::bigint
FROM (SELECT coalesce($1::timestamptz, now()) AS at) AS c
ON CONFLICT DO NOTHING
RETURNING id;
