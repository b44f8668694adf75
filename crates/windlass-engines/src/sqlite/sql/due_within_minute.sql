-- due_within_minute: counts the waiting jobs of one type and priority without a gate that fell due between
-- two instants of the current minute. Scans only those, in the index.
-- ?1 type   ?2 priority   ?3 from   ?4 to, both included
SELECT count(*) FROM delayed_jobs
WHERE gate IS NULL AND worker IS NULL AND type = ?1 AND priority = ?2 AND due BETWEEN ?3 AND ?4;
