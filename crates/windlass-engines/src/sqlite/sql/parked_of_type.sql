-- parked_of_type: jobs of a type behind any gate, but for those that leave for another store.
-- ?1 type   ?2 at most so many
SELECT id FROM delayed_jobs WHERE gate IS NOT NULL AND type = ?1 AND gate NOT LIKE 'spool:%' LIMIT ?2;
