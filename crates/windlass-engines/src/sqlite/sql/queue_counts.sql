-- queue_counts: counts the jobs of each queue by state, and its events so far.
SELECT queue, sum(waiting), sum(parked), sum(running), sum(dead_letters), sum(enqueued), sum(succeeded),
    sum(retried), sum(dead), sum(cancelled), sum(started_over)
FROM counts GROUP BY queue;
