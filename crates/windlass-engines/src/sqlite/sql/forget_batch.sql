-- forget_batch: a batch is over.
-- ?1 request
DELETE FROM spool_batches WHERE request = ?1;
