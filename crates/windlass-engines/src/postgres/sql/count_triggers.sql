-- count_triggers: how many drains are kept.
SELECT count(*) FROM windlass.completion_triggers;
