-- set_due: a waiting job falls due at another time, behind a gate or not; never a running one.
-- ?1 id   ?2 due   ?3 gate, or null
UPDATE delayed_jobs SET due = ?2, gate = ?3 WHERE id = ?1 AND worker IS NULL;
