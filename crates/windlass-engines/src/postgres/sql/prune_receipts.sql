-- prune_receipts: deletes receipts that are no longer valid.
-- $1 now, or null for the server's clock   $2 retention in microseconds   $3 limit
DELETE FROM windlass.receipts WHERE request = ANY (ARRAY (
    SELECT request FROM windlass.receipts
    WHERE at <= coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond' LIMIT $3::integer
)) RETURNING 1;
