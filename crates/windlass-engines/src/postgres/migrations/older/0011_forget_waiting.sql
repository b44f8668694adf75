-- forget_waiting: marks of processes that are gone.
DELETE FROM windlass.waiting WHERE since < clock_timestamp() - interval '1 minute';
