-- open_receipt: stores a receipt that is filled in at the end of the transaction; waits for a session that
-- is answering the same request. Returns the version of the catalogue, and the store's clock if this
-- transaction owns the receipt.
-- $1 now, or null for the server's clock   $2 request   $3 version of the catalogue
WITH guard AS MATERIALIZED (
    SELECT version, coalesce($1::timestamptz, now()) AS at FROM windlass.catalogue
), receipt AS (
    INSERT INTO windlass.receipts (request, at)
    SELECT $2::uuid, at FROM guard WHERE version = $3::bigint
    ON CONFLICT (request) DO UPDATE SET at = excluded.at, ids = NULL, answers = NULL
    WHERE receipts.at <= excluded.at - interval '1 hour'
    RETURNING at
)
SELECT version, (SELECT at FROM receipt) FROM guard;
