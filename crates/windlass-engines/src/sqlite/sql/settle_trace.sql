-- settle_trace: stores the trace of a job that ends and is not kept, only while its claim holds or it
-- waits.
-- ?1 id   ?2 token, or null if it waits   ?3 the token that settled it, or null   ?4 now
INSERT INTO job_traces
SELECT id, coalesce(?3, settled_by), ?4 FROM delayed_jobs
WHERE id = ?1 AND token IS ?2 AND coalesce(?3, settled_by) IS NOT NULL;
