-- claimed_before: lists the jobs that a claim request returned when it was sent before.
-- ?1 worker   ?2 token
SELECT id FROM delayed_jobs WHERE worker = ?1 AND token = ?2 ORDER BY priority, due, id;
