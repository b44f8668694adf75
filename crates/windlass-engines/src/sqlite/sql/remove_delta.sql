-- remove_delta: one that was folded.
-- ?1 which
DELETE FROM minute_deltas WHERE id = ?1;
