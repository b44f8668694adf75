-- set_look_at: when a drain may be looked at again.
-- ?1 name   ?2 when
UPDATE job_drains SET look_at = ?2 WHERE name = ?1;
