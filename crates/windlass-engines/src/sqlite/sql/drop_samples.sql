-- drop_samples: while no process rolls up, only the newest are kept.
-- ?1 so many
DELETE FROM rollup_samples WHERE id <= (SELECT max(id) FROM rollup_samples) - ?1;
