-- old_spent_tokens: returns whether the oldest spent token is old enough for the next prune.
-- ?1 tokens spent at this instant or before
SELECT coalesce((SELECT at <= ?1 FROM spent_tokens ORDER BY id LIMIT 1), 0);
