-- set_look_at: stores when a completion trigger may be evaluated again.
-- ?1 name   ?2 when
UPDATE completion_triggers SET look_at = ?2 WHERE name = ?1;
