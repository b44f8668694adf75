-- merge_count_minutes: adds the minutes before a cut to the minute of the cut; the sum of a queue stays.
-- ?1 the cut
INSERT INTO count_minutes
SELECT queue, ?1, sum(n) FROM count_minutes WHERE minute < ?1 GROUP BY queue
ON CONFLICT (queue, minute) DO UPDATE SET n = n + excluded.n;
