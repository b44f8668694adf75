-- find_batch: jobs that leave together under one request.
-- ?1 request
SELECT request, since, ids FROM spool_batches WHERE request = ?1;
