-- suspects: lists due jobs whose worker died while it held them, most urgent first. There are few of them.
-- ?1 now
SELECT id, type, crashes FROM delayed_jobs WHERE gate = 'suspect' AND due <= ?1 ORDER BY priority, due, id;
