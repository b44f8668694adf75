-- forget_batch: deletes a batch that is complete.
-- ?1 request
DELETE FROM spool_batches WHERE request = ?1;
