-- suspects_ahead: lists when suspects fall due, jobs whose worker died while it held them; reads the index
-- alone.
SELECT due, type FROM delayed_jobs WHERE gate = 'suspect' ORDER BY due, id;
