-- lock_duty: takes a lock of this session, unless another session has it.
-- $1 its name
SELECT pg_try_advisory_lock(hashtextextended($1::text, 0));
