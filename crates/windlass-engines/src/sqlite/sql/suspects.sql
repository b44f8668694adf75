-- suspects: due jobs whose worker died while it held them, in the order of their due times.
-- ?1 now
SELECT id, type, crashes FROM delayed_jobs WHERE gate = 'suspect' AND due <= ?1 ORDER BY due, id;
