-- unmark_trigger: deletes the mark of a completion trigger that was evaluated, or is gone.
-- ?1 name
DELETE FROM completion_trigger_marks WHERE trigger = ?1;
