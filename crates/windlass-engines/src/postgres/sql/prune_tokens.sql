-- prune_tokens: tokens of claims that nobody asks about any more.
-- $1 now, or null for the server's clock   $2 kept for so many microseconds   $3 at most so many
DELETE FROM windlass.claim_tokens WHERE token = ANY (ARRAY (
    SELECT token FROM windlass.claim_tokens
    WHERE at <= coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond' LIMIT $3::integer
)) RETURNING 1;
