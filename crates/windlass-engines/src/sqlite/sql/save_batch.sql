-- save_batch: stores a batch of jobs that move to another store together.
-- ?1 request   ?2 now   ?3 ids of the jobs, as a JSON list
INSERT INTO spool_batches (request, since, ids) VALUES (?1, ?2, ?3);
