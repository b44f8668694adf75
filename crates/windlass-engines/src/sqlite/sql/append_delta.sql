-- append_delta: what a worker has seen.
-- ?1 when   ?2 what
INSERT INTO minute_deltas (at, seen) VALUES (?1, ?2);
