-- find_tokens: reads when the next token of a key falls due if no token is saved.
-- ?1 limit   ?2 key
SELECT due FROM job_rate_limits WHERE name = ?1 AND key = ?2;
