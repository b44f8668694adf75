-- find_receipt: what a request was answered, if its receipt is still good.
-- ?1 request   ?2 receipts of this instant or older are no longer good
SELECT answers FROM receipts WHERE request = ?1 AND at > ?2;
