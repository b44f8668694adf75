-- count_leases: counts the duties with a lease.
SELECT count(*) FROM background_job_leases;
