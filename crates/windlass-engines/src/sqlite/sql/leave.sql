-- leave: deletes the live row of a job that has ended, only while its claim holds or it waits.
-- ?1 id   ?2 token, or null if it waits
DELETE FROM delayed_jobs WHERE id = ?1 AND token IS ?2;
