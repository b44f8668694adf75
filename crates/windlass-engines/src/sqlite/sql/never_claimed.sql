-- never_claimed: the oldest waiting jobs that nobody ever claimed and that nothing but the want of a handler holds back.
-- ?1 at most so many
SELECT id FROM delayed_jobs
WHERE worker IS NULL AND attempts = 0 AND (gate IS NULL OR gate LIKE 'no-handler:%')
ORDER BY id LIMIT ?1;
