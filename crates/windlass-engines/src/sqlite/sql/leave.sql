-- leave: a job that has ended leaves the live ones, only while its claim holds or it waits.
-- ?1 id   ?2 token, or null if it waits
DELETE FROM delayed_jobs WHERE id = ?1 AND token IS ?2;
