-- forget_waiting: deletes the entries of processes that are gone.
DELETE FROM windlass.waiting WHERE since < statement_timestamp() - interval '1 minute';
