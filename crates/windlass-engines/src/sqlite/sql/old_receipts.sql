-- old_receipts: returns whether the oldest receipt is no longer valid.
-- ?1 receipts of this instant or older
SELECT coalesce((SELECT at <= ?1 FROM receipts ORDER BY id LIMIT 1), 0);
