-- prune_spent_tokens: deletes spent tokens whose first message can no longer arrive, oldest first.
-- ?1 tokens spent at this instant or before   ?2 limit
DELETE FROM spent_tokens WHERE id IN (SELECT id FROM spent_tokens ORDER BY id LIMIT ?2) AND at <= ?1;
