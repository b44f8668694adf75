-- count_triggers: how many triggers are kept.
SELECT count(*) FROM windlass.completion_triggers;
