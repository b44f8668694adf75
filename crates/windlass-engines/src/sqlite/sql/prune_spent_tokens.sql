-- prune_spent_tokens: delete spent tokens whose first sending can come no more, oldest first.
-- ?1 tokens spent at this instant or before   ?2 at most so many
DELETE FROM spent_tokens WHERE id IN (SELECT id FROM spent_tokens ORDER BY id LIMIT ?2) AND at <= ?1;
