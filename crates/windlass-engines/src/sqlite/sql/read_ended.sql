-- read_ended: reads one job that succeeded or was cancelled.
-- ?1 id
SELECT {job}, state, result, why, ended_at
FROM job_history WHERE id = ?1;
