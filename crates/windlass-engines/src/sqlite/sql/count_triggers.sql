-- count_triggers: how many triggers are kept.
SELECT count(*) FROM completion_triggers;
