-- is_spent: returns whether a claim request was repeated already, so that its first message arrives too
-- late.
-- ?1 token
SELECT 1 FROM spent_tokens WHERE token = ?1;
