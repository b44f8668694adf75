-- find_tokens: when the next token of a key falls due if nothing is saved up.
-- ?1 limit   ?2 key
SELECT due FROM job_rate_limits WHERE name = ?1 AND key = ?2;
