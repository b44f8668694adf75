-- count_triggers: counts all completion triggers.
SELECT count(*) FROM windlass.completion_triggers;
