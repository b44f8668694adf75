-- save_sequence: note which number comes next; it never goes back.
-- ?1 the number
UPDATE job_sequence SET next = max(next, ?1);
