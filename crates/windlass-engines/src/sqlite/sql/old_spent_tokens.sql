-- old_spent_tokens: whether the oldest spent token is left for the next prune.
-- ?1 tokens spent at this instant or before
SELECT coalesce((SELECT at <= ?1 FROM spent_tokens ORDER BY id LIMIT 1), 0);
