-- find_batch: reads the batch of one request.
-- ?1 request
SELECT request, since, ids FROM spool_batches WHERE request = ?1;
