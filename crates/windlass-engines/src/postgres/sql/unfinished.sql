-- unfinished: counts the jobs of a queue that have not ended.
-- $1 queue
-- plan: walks count_deltas: folding keeps this table short
SELECT (
    coalesce((SELECT sum(waiting + parked + running) FROM windlass.counts WHERE queue = $1::text), 0)
    + coalesce((SELECT sum(waiting + parked + running) FROM windlass.count_deltas WHERE queue = $1::text), 0)
)::bigint;
