-- advance_ordering_key: lets the oldest job out in ordering keys that have no job out. With null, it does
-- so in the ordering keys that were marked longest ago. Returns the result of each (went, out, busy), its
-- type, ordering key, queue, priority, due time and job id. Returns 'more' if there may be marks behind the
-- mark with this number.
-- by position: $1 types, or null   $2 ordering keys   then: $3 marks behind this one   $4 limit
-- $5 the gate of a job that has ever crashed
SELECT what, of_type, of_ordering_key, went_to, at_priority, due, number
FROM windlass.advance_ordering_key($1::text[], $2::text[], $3::bigint, $4::integer, $5::text);
