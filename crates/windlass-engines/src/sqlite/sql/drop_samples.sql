-- drop_samples: deletes all but the newest samples while no process rolls up.
-- ?1 how many are kept
DELETE FROM rollup_samples WHERE id <= (SELECT max(id) FROM rollup_samples) - ?1;
