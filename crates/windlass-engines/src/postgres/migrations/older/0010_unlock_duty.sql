-- unlock_duty: gives a lock of this session back.
-- $1 the duty
SELECT pg_advisory_unlock(hashtextextended('windlass.' || $1::text, 0));
