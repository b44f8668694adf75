-- forget_batch: a batch is over.
-- ?1 request
DELETE FROM spill_batches WHERE request = ?1;
