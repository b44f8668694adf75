-- breakers: all breakers, by name.
-- ?1 at most so many
SELECT name, version, state FROM job_breakers ORDER BY name LIMIT ?1;
