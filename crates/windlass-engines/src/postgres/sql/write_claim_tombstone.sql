-- write_claim_tombstone: stores a tombstone for a claim whose answer was lost. Waits for the statement of
-- the claim if that is still running; if it arrives later, it claims nothing.
-- $1 now, or null for the server's clock   $2 token
INSERT INTO windlass.claims (token, at, claim_tombstones) VALUES ($2::uuid, coalesce($1::timestamptz, now()), true)
ON CONFLICT (token) DO UPDATE SET claim_tombstones = true;
