-- oldest_samples: lists the oldest samples that are not rolled up yet.
-- ?1 limit
SELECT id, at, seen FROM rollup_samples ORDER BY id LIMIT ?1;
