-- count_running: how many jobs each worker holds; a scan of the running ones only.
SELECT worker, count(*) FROM delayed_jobs WHERE worker IS NOT NULL GROUP BY worker;
