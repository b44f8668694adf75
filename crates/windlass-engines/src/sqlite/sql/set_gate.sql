-- set_gate: a waiting job goes behind a gate, or through it; never a running one.
-- ?1 id   ?2 gate, or null
UPDATE delayed_jobs SET gate = ?2 WHERE id = ?1 AND worker IS NULL;
