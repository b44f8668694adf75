-- read_options: the rarer options of a job that has not ended.
-- ?1 id
SELECT options FROM delayed_jobs WHERE id = ?1;
