-- types_waiting: lists types with jobs that wait without a gate.
-- plan: walks count_deltas: folding keeps this table short
-- plan: sorts: changes that are not yet folded are grouped by type
SELECT job_type FROM (
    SELECT job_type, waiting FROM windlass.counts
    UNION ALL SELECT job_type, waiting FROM windlass.count_deltas
) AS both_parts GROUP BY 1 HAVING sum(waiting) > 0;
