-- mark_waiting: registers that this process waits for jobs of these queues and must be notified.
-- $1 queues   $2 channel   by position: $3 the types it handles, in JSON
INSERT INTO windlass.waiting (queue, channel, since, types)
SELECT queue, $2::text, clock_timestamp(), ARRAY (SELECT json_array_elements_text(types::json))
FROM unnest($1::text[], $3::text[]) AS q (queue, types)
ON CONFLICT (queue, channel) DO UPDATE SET since = excluded.since, types = excluded.types;
