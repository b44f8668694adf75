-- was_settled: returns whether this very claim was settled before: its token is still with the job,
-- wherever it is.
-- ?1 id   ?2 token
SELECT 1 FROM delayed_jobs WHERE id = ?1 AND settled_by = ?2
UNION ALL SELECT 1 FROM job_history WHERE id = ?1 AND settled_by = ?2
UNION ALL SELECT 1 FROM delayed_jobs_dlq WHERE id = ?1 AND settled_by = ?2
UNION ALL SELECT 1 FROM job_traces WHERE job = ?1 AND settled_by = ?2
LIMIT 1;
