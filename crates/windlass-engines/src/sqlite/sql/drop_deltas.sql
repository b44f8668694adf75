-- drop_deltas: if nobody folds, only the newest are kept.
-- ?1 so many
DELETE FROM minute_deltas WHERE id <= (SELECT max(id) FROM minute_deltas) - ?1;
