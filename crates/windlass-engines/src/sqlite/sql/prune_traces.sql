-- prune_traces: deletes old traces, those of the oldest jobs first.
-- ?1 traces of this instant or older   ?2 limit
DELETE FROM job_traces WHERE job IN (SELECT job FROM job_traces ORDER BY job LIMIT ?2) AND at <= ?1;
