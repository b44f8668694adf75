-- count_leases: of how many duties leases are kept.
SELECT count(*) FROM background_job_leases;
