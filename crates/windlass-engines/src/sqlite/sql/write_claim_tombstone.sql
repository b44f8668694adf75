-- write_claim_tombstone: stores that a claim request was repeated; once, however often it is.
-- ?1 token   ?2 now
INSERT INTO spent_tokens (token, at) VALUES (?1, ?2) ON CONFLICT (token) DO NOTHING;
