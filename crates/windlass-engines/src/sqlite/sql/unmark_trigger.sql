-- unmark_trigger: a trigger was looked at, or is gone.
-- ?1 name
DELETE FROM completion_trigger_marks WHERE trigger = ?1;
