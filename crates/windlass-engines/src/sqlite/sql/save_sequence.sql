-- save_sequence: stores the id of the next job; it never goes back.
-- ?1 the id
UPDATE job_sequence SET next = max(next, ?1);
