-- was_settled: lists which of these claims were settled before: their token is still with the job, wherever
-- it is.
-- by position: $1 ids   $2 tokens
-- plan: walks delayed_jobs_dlq_queue when seen empty: it runs only for claims that are lost
WITH input AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::uuid[]) AS i (id, token)
)
SELECT i.id, i.token FROM input i
WHERE EXISTS (SELECT 1 FROM windlass.delayed_jobs j WHERE j.id = i.id AND j.settled_by = i.token)
    OR EXISTS (SELECT 1 FROM windlass.job_history h WHERE h.id = i.id AND h.settled_by = i.token)
    OR EXISTS (SELECT 1 FROM windlass.delayed_jobs_dlq d WHERE d.id = i.id AND d.settled_by = i.token)
    OR EXISTS (SELECT 1 FROM windlass.job_traces t WHERE t.settled_by = i.token AND i.id = ANY (t.jobs));
