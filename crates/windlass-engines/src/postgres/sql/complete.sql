-- complete: a job is done together with what else the caller's own transaction writes, if its claim holds.
-- $1 id   $2 token   $3 now, or null for the server's clock
SELECT windlass.complete($1::bigint, $2::uuid, $3::timestamptz);
