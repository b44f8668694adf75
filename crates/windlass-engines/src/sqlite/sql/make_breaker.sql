-- make_breaker: creates a breaker, unless it exists.
-- ?1 name   ?2 state
INSERT INTO job_breakers (name, version, state) VALUES (?1, 1, ?2) ON CONFLICT DO NOTHING;
