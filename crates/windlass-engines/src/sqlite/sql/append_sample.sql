-- append_sample: stores a sample of a worker.
-- ?1 when   ?2 the sample
INSERT INTO rollup_samples (at, seen) VALUES (?1, ?2);
