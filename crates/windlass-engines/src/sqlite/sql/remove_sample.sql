-- remove_sample: one that was rolled up.
-- ?1 which
DELETE FROM rollup_samples WHERE id = ?1;
