-- save_rollup: stores the rollup of a minute, queue and type.
-- ?1 minute   ?2 queue   ?3 type   ?4 enqueued   ?5 started   ?6 succeeded   ?7 retried   ?8 dead
-- ?9 cancelled
-- ?10 waits   ?11 runs
INSERT OR REPLACE INTO job_rollups (
    minute, queue, job_type, enqueued, started, succeeded, retried, dead, cancelled, waits, runs
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);
