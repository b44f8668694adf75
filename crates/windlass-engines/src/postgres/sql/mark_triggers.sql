-- mark_triggers: marks the completion triggers that a waiting job kept unfinished until it was postponed.
-- $1 its id
SELECT windlass.mark_put_off($1::bigint);
