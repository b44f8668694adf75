-- find_breaker: reads the state of a breaker, if no process has changed it since it was read.
-- $1 name   $2 the version that was read
SELECT state FROM windlass.job_breakers WHERE name = $1::text AND version = $2::bigint;
