-- lock_duty: takes a lock of this session, unless another session has it. Each schema has locks of its own.
-- $1 the duty
SELECT pg_try_advisory_lock(hashtextextended('windlass.' || $1::text, 0));
