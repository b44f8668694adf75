-- behind_gate: lists the jobs behind a gate, oldest first.
-- ?1 gate   ?2 limit
SELECT id FROM delayed_jobs WHERE gate = ?1 ORDER BY due, id LIMIT ?2;
