-- live_stage: whether a job that has not ended waits (0) or runs (1).
-- ?1 id
SELECT worker IS NOT NULL FROM delayed_jobs WHERE id = ?1;
