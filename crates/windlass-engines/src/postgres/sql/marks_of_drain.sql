-- marks_of_drain: the oldest marks of a drain.
-- $1 name   $2 at most so many
SELECT id FROM windlass.drain_marks WHERE drain = $1::text ORDER BY id LIMIT $2::integer;
