-- leave: a job that has ended leaves the live ones, only while it is as the caller saw it.
-- ?1 id   ?2 token, or null for none
DELETE FROM delayed_jobs WHERE id = ?1 AND token IS ?2;
