-- close_request: leaves a receipt without answers for a request that has none, so that the request stores
-- nothing when it arrives. Waits for a transaction that is about to leave one. Answers a row if it closed the
-- request.
-- $1 now, or null for the server's clock   $2 request
INSERT INTO windlass.receipts (request, at) VALUES ($2::uuid, coalesce($1::timestamptz, now()))
ON CONFLICT (request) DO UPDATE SET at = excluded.at, ids = NULL, answers = NULL
WHERE receipts.at <= excluded.at - interval '1 hour'
RETURNING 1;
