-- prune_receipts: delete receipts that are no longer good, oldest first.
-- ?1 receipts of this instant or older   ?2 at most so many
DELETE FROM receipts WHERE id IN (SELECT id FROM receipts ORDER BY id LIMIT ?2) AND at <= ?1;
