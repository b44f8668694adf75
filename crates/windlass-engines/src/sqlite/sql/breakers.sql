-- breakers: lists all breakers, by name.
-- ?1 limit
SELECT name, version, state FROM job_breakers ORDER BY name LIMIT ?1;
