-- held: reads what settling a running job needs, only while the caller still holds the claim.
-- ?1 id   ?2 token
SELECT type, due, attempts, failures, crashes, holds, key, worker, since, cancel_requested, ordering_key, job_group
FROM delayed_jobs WHERE id = ?1 AND token = ?2;
