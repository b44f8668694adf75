-- watches: what drains watch.
SELECT name, kind, watched, wait_for_retries FROM job_drains;
