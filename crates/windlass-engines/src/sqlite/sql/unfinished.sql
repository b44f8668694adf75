-- unfinished: how many jobs of a queue have not ended.
-- ?1 queue
SELECT coalesce(sum(waiting + parked + running), 0) FROM counts WHERE queue = ?1;
