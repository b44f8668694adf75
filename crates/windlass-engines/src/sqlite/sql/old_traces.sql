-- old_traces: returns whether there is a trace that a prune would delete.
-- ?1 traces of this instant or older   ?2 how many are read at most
SELECT EXISTS (SELECT 1 FROM (SELECT at FROM job_traces ORDER BY job LIMIT ?2) WHERE at <= ?1);
