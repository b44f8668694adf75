-- old_receipts: whether the oldest receipt is no longer good.
-- ?1 receipts of this instant or older
SELECT coalesce((SELECT at <= ?1 FROM receipts ORDER BY id LIMIT 1), 0);
