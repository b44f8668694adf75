-- parked_of_type: lists the jobs of a type behind any gate, except jobs that are moving to another store.
-- ?1 type   ?2 limit
SELECT id FROM delayed_jobs WHERE gate IS NOT NULL AND type = ?1 AND gate NOT LIKE 'spool:%' LIMIT ?2;
