-- watches: lists the groups that completion triggers watch.
SELECT name, kind, watched, wait_for_retries FROM completion_triggers;
