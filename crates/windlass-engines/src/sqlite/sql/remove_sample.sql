-- remove_sample: deletes a sample that was rolled up.
-- ?1 its id
DELETE FROM rollup_samples WHERE id = ?1;
