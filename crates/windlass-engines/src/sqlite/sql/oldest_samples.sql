-- oldest_samples: what workers have seen and nothing was rolled up yet.
-- ?1 at most so many
SELECT id, at, seen FROM rollup_samples ORDER BY id LIMIT ?1;
