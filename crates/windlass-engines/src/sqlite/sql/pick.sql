-- pick: the first jobs of one range of a claim's order, in the index alone.
-- ?1 type   ?2 priority   ?3 due after   ?4 due until, included   ?5 at most so many
SELECT due, id FROM delayed_jobs
WHERE gate IS NULL AND worker IS NULL AND type = ?1 AND priority = ?2 AND due > ?3 AND due <= ?4
ORDER BY due, id LIMIT ?5;
