-- write_claim_tombstone: a claim whose answer got lost is asked about. Waits for its statement if that is still under way; if it
-- comes later, it brings nothing.
-- $1 now, or null for the server's clock   $2 token
INSERT INTO windlass.claims (token, at, claim_tombstones) VALUES ($2::uuid, coalesce($1::timestamptz, now()), true)
ON CONFLICT (token) DO UPDATE SET claim_tombstones = true;
