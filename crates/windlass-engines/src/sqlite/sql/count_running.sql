-- count_running: counts the jobs that each worker holds; a scan of the running jobs only.
SELECT worker, count(*) FROM delayed_jobs WHERE worker IS NOT NULL GROUP BY worker;
