-- peek_tokens: reads the store's clock, and when the next token of a key falls due if no token is saved.
-- $1 now, or null for the server's clock   $2 limit   $3 key
SELECT round(extract(epoch FROM coalesce($1::timestamptz, now())) * 1000000)::bigint,
    (SELECT due FROM windlass.job_rate_limits WHERE name = $2::text AND key = $3::text);
