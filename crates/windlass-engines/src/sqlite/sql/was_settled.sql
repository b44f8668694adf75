-- was_settled: whether a claim was settled before: its token is still on the waiting row, the dead letter or
-- the history row. A running row is no proof.
-- ?1 id   ?2 token
SELECT 1 FROM delayed_jobs WHERE id = ?1 AND token = ?2 AND worker IS NULL
UNION ALL SELECT 1 FROM job_history WHERE id = ?1 AND token = ?2
UNION ALL SELECT 1 FROM delayed_jobs_dlq WHERE id = ?1 AND token = ?2
LIMIT 1;
