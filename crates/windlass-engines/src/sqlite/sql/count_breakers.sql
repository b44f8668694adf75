-- count_breakers: counts the breakers.
SELECT count(*) FROM job_breakers;
