-- count_drains: how many drains are kept.
SELECT count(*) FROM job_drains;
