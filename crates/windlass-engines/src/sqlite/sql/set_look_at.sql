-- set_look_at: when a drain may be looked at again.
-- ?1 name   ?2 when
UPDATE completion_triggers SET look_at = ?2 WHERE name = ?1;
