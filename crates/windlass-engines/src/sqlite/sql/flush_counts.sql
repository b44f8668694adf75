-- flush_counts: adds the changes of one transaction to the counts of a type.
-- ?1 type   ?2 queue   ?3 waiting   ?4 parked   ?5 running   ?6 dead letters   ?7 enqueued   ?8 succeeded
-- ?9 retried   ?10 dead   ?11 cancelled   ?12 started over
INSERT INTO counts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (type) DO UPDATE SET
    waiting = waiting + excluded.waiting,
    parked = parked + excluded.parked,
    running = running + excluded.running,
    dead_letters = dead_letters + excluded.dead_letters,
    enqueued = enqueued + excluded.enqueued,
    succeeded = succeeded + excluded.succeeded,
    retried = retried + excluded.retried,
    dead = dead + excluded.dead,
    cancelled = cancelled + excluded.cancelled,
    started_over = started_over + excluded.started_over;
