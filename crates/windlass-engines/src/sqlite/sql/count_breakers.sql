-- count_breakers: how many breakers there are.
SELECT count(*) FROM job_breakers;
