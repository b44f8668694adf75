-- advance_ordering_key: in some ordering keys in which nobody is out the oldest goes out; or (null) in those that were marked longest ago.
-- Answers what became of each (went, out, busy), of which type and ordering keys, its queue, priority, due time and number; and
-- 'more' if there may be marks behind the one with this number.
-- by position: $1 types, or null   $2 ordering_key   then: $3 marks behind this one   $4 at most so many   $5 the gate of one that ever
-- crashed
SELECT what, of_type, of_ordering_key, went_to, at_priority, due, number
FROM windlass.advance_ordering_key($1::text[], $2::text[], $3::bigint, $4::integer, $5::text);
