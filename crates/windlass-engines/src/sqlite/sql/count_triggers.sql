-- count_triggers: counts the completion triggers.
SELECT count(*) FROM completion_triggers;
