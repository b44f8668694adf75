-- count_drains: how many drains are kept.
SELECT count(*) FROM windlass.job_drains;
