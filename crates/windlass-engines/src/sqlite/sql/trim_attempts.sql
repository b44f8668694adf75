-- trim_attempts: keeps only the newest attempts of a job that is retried for very long.
-- ?1 job   ?2 how many stay
DELETE FROM attempts WHERE job = ?1
    AND id <= (SELECT id FROM attempts WHERE job = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2);
