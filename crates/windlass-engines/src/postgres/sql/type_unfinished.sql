-- type_unfinished: how many jobs of each type have not ended.
-- plan: walks count_deltas: folding keeps this table short
-- plan: sorts: changes that are not yet folded are gathered by type
SELECT job_type, sum(n)::bigint FROM (
    SELECT job_type, waiting + parked + running AS n FROM windlass.counts
    UNION ALL SELECT job_type, waiting + parked + running FROM windlass.count_deltas
) AS both_parts GROUP BY 1;
