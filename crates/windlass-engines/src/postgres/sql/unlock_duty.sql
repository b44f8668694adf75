-- unlock_duty: gives a lock of this session back.
-- $1 its name
SELECT pg_advisory_unlock(hashtextextended($1::text, 0));
