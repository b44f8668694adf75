-- replace_job: a waiting job gets a new payload, due time, priority, expiry and label; never a running one.
-- ?1 id   ?2 payload   ?3 due   ?4 priority   ?5 expires at   ?6 options
UPDATE delayed_jobs SET payload = ?2, due = ?3, priority = ?4, expires_at = ?5, options = ?6
WHERE id = ?1 AND worker IS NULL;
