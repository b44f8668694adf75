-- complete: ends a job as succeeded in the caller's own transaction, together with its other writes, if the
-- claim holds.
-- $1 id   $2 token   $3 now, or null for the server's clock
SELECT windlass.complete($1::bigint, $2::uuid, $3::timestamptz);
