-- still_holds: returns whether a job runs under this very claim.
-- ?1 id   ?2 token
SELECT 1 FROM delayed_jobs WHERE id = ?1 AND token = ?2;
