-- declare_queues: declares or changes queues; a pause and a shut queue stay as they are.
-- by position: $1 names   $2 specs   $3 priorities   $4 capacities, or null
INSERT INTO windlass.queues (name, spec, priority, capacity)
SELECT * FROM unnest($1::text[], $2::text[], $3::smallint[], $4::bigint[])
ON CONFLICT (name) DO UPDATE SET spec = excluded.spec, priority = excluded.priority, capacity = excluded.capacity;
