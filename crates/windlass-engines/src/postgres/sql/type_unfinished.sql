-- type_unfinished: counts the jobs of each type that have not ended.
-- plan: walks count_deltas: folding keeps this table short
-- plan: sorts: changes that are not yet folded are grouped by type
SELECT job_type, sum(n)::bigint FROM (
    SELECT job_type, waiting + parked + running AS n FROM windlass.counts
    UNION ALL SELECT job_type, waiting + parked + running FROM windlass.count_deltas
) AS both_parts GROUP BY 1;
