-- save_breaker: stores the new state of a breaker, if no process has changed it since it was read.
-- ?1 name   ?2 state   ?3 the version that was read
UPDATE job_breakers SET version = version + 1, state = ?2 WHERE name = ?1 AND version = ?3;
