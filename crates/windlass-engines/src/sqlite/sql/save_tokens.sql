-- save_tokens: stores that tokens of a key were taken.
-- ?1 limit   ?2 key   ?3 when the next token falls due
INSERT INTO job_rate_limits (name, key, due) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET due = excluded.due;
