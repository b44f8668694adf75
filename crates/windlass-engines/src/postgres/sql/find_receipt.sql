-- find_receipt: what a request was answered, if its receipt is still good.
-- $1 now, or null for the server's clock   $2 request   $3 a receipt is good for so many microseconds
SELECT ids, answers FROM windlass.receipts
WHERE request = $2::uuid AND at > coalesce($1::timestamptz, now()) - $3::bigint * interval '1 microsecond';
