-- count_triggers: how many drains are kept.
SELECT count(*) FROM completion_triggers;
