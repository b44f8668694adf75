-- watches: what drains watch.
SELECT name, kind, watched, wait_for_retries FROM completion_triggers;
