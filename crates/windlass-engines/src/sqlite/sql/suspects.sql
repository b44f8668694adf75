-- suspects: jobs whose worker died while it held them, in the order of their due times.
-- ?1 at most so many
SELECT id, due, type, priority, crashes FROM delayed_jobs WHERE gate = 'suspect' ORDER BY due, id LIMIT ?1;
