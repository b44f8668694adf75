-- oldest_deltas: what workers have seen and nobody has folded.
-- ?1 at most so many
SELECT id, at, seen FROM minute_deltas ORDER BY id LIMIT ?1;
