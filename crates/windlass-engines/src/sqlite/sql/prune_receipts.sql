-- prune_receipts: deletes receipts that are no longer valid, oldest first.
-- ?1 receipts of this instant or older   ?2 limit
DELETE FROM receipts WHERE id IN (SELECT id FROM receipts ORDER BY id LIMIT ?2) AND at <= ?1;
