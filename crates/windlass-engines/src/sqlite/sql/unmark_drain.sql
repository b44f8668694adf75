-- unmark_drain: a drain was looked at, or is gone.
-- ?1 name
DELETE FROM drain_marks WHERE drain = ?1;
