-- lock_duties: takes locks of this session, each unless another session has it, and returns whether it got
-- each. Each schema has locks of its own.
-- $1 duties
SELECT pg_try_advisory_lock(hashtextextended('windlass.' || i.duty, 0))
FROM unnest($1::text[]) WITH ORDINALITY AS i (duty, place) ORDER BY i.place;
