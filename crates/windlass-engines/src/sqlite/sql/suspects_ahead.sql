-- suspects_ahead: when jobs fall due whose worker died while it held them; in the index alone.
SELECT due, type FROM delayed_jobs WHERE gate = 'suspect' ORDER BY due, id;
