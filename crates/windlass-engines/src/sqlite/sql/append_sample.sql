-- append_sample: what a worker has seen.
-- ?1 when   ?2 what
INSERT INTO rollup_samples (at, seen) VALUES (?1, ?2);
