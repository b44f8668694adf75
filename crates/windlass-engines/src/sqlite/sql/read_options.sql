-- read_options: reads the rarer options of a job that has not ended.
-- ?1 id
SELECT options FROM delayed_jobs WHERE id = ?1;
