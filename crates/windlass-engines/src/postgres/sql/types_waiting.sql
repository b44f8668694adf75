-- types_waiting: types of which jobs wait without a gate.
SELECT job_type FROM (
    SELECT job_type, waiting FROM windlass.counts
    UNION ALL SELECT job_type, waiting FROM windlass.count_deltas
) AS both_parts GROUP BY 1 HAVING sum(waiting) > 0;
