-- find_receipt: reads the answers to a request, if its receipt is still valid.
-- ?1 request   ?2 receipts of this instant or older are no longer valid
SELECT answers FROM receipts WHERE request = ?1 AND at > ?2;
