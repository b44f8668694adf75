-- live_stage: returns whether a job that has not ended waits (0) or runs (1). A job that is moving to
-- another store is as good as claimed: it cannot be changed any more.
-- ?1 id
SELECT worker IS NOT NULL OR (gate IS NOT NULL AND gate LIKE 'spool:%') FROM delayed_jobs WHERE id = ?1;
