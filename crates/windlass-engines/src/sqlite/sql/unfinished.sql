-- unfinished: counts the jobs of a queue that have not ended.
-- ?1 queue
SELECT coalesce(sum(waiting + parked + running), 0) FROM counts WHERE queue = ?1;
