-- find_breaker: what is known of a breaker, if nobody wrote since it was read.
-- $1 name   $2 the version that was read
SELECT state FROM windlass.job_breakers WHERE name = $1::text AND version = $2::bigint;
