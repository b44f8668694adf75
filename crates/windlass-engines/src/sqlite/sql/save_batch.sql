-- save_batch: notes jobs that leave together.
-- ?1 request   ?2 now   ?3 numbers of the jobs, as a JSON list
INSERT INTO spool_batches (request, since, ids) VALUES (?1, ?2, ?3);
