-- unmark_trigger: a drain was looked at, or is gone.
-- ?1 name
DELETE FROM completion_trigger_marks WHERE trigger = ?1;
