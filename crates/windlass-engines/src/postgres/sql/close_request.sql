-- close_request: leaves a receipt without answers for a request that has none, so that the request stores
-- nothing when it arrives. One that is closed stays so for as long from now on. Waits for a transaction that is
-- about to leave a receipt. Answers a row if the request is closed.
-- $1 now, or null for the server's clock   $2 request
INSERT INTO windlass.receipts (request, at) VALUES ($2::uuid, coalesce($1::timestamptz, now()))
ON CONFLICT (request) DO UPDATE SET at = excluded.at, ids = NULL, answers = NULL
WHERE receipts.at <= excluded.at - interval '1 hour' OR (receipts.ids IS NULL AND receipts.answers IS NULL)
RETURNING 1;
