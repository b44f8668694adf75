-- find_receipt: reads the answer to a request, if its receipt is still valid.
-- $1 now, or null for the server's clock   $2 request   $3 how long a receipt is valid, in microseconds
SELECT ids, answers FROM windlass.receipts
WHERE request = $2::uuid AND at > coalesce($1::timestamptz, now()) - $3::bigint * interval '1 microsecond';
