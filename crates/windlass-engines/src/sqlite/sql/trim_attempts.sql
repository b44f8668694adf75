-- trim_attempts: of a job that goes on and on, only the newest attempts stay.
-- ?1 job   ?2 how many stay
DELETE FROM attempts WHERE job = ?1
    AND id <= (SELECT id FROM attempts WHERE job = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2);
