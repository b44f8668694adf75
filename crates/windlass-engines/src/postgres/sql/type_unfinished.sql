-- type_unfinished: how many jobs of each type have not ended.
SELECT job_type, sum(n)::bigint FROM (
    SELECT job_type, waiting + parked + running AS n FROM windlass.counts
    UNION ALL SELECT job_type, waiting + parked + running FROM windlass.count_deltas
) AS both_parts GROUP BY 1;
