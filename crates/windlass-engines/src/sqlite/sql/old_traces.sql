-- old_traces: whether a trace is left that a prune would delete.
-- ?1 traces of this instant or older   ?2 at most so many are looked at
SELECT EXISTS (SELECT 1 FROM (SELECT at FROM job_traces ORDER BY job LIMIT ?2) WHERE at <= ?1);
