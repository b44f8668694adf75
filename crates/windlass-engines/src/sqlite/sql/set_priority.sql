-- set_priority: a waiting job gets another priority; never a running one.
-- ?1 id   ?2 priority
UPDATE delayed_jobs SET priority = ?2 WHERE id = ?1 AND worker IS NULL;
