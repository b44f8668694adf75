-- close_request: stores a tombstone for a request that has no receipt, so that the request stores nothing
-- when it arrives. A tombstone that exists is renewed for the full time. Waits for a transaction that is
-- about to store a receipt. Returns a row if the request is closed.
-- $1 now, or null for the server's clock   $2 request
INSERT INTO windlass.receipts (request, at) VALUES ($2::uuid, coalesce($1::timestamptz, now()))
ON CONFLICT (request) DO UPDATE SET at = excluded.at, ids = NULL, answers = NULL
WHERE receipts.at <= excluded.at - interval '1 hour' OR (receipts.ids IS NULL AND receipts.answers IS NULL)
RETURNING 1;
