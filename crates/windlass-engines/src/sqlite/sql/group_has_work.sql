-- group_has_work: returns whether any job of a named group runs, could run, or has not ended. The job of a
-- trigger has no group.
-- ?1 group   ?2 now   ?3 the prefix of the gates of ordering keys   ?4 the first text after all of them
SELECT
    EXISTS (SELECT 1 FROM delayed_jobs WHERE worker IS NOT NULL AND +job_group = ?1),
    EXISTS (SELECT 1 FROM delayed_jobs WHERE job_group = ?1 AND gate IS NULL AND due <= ?2)
        OR EXISTS (SELECT 1 FROM delayed_jobs WHERE job_group = ?1 AND gate = 'suspect' AND due <= ?2)
        OR EXISTS (SELECT 1 FROM delayed_jobs WHERE job_group = ?1 AND gate >= ?3 AND gate < ?4 AND due <= ?2),
    EXISTS (SELECT 1 FROM delayed_jobs WHERE job_group = ?1);
