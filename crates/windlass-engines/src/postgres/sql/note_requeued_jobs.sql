-- note_requeued_jobs: where jobs were put back that are due, so that claims of other processes look there again. By the
-- server's own clock, since it only says which notes are new.
-- by position: $1 queues   $2 priorities   $3 due
INSERT INTO windlass.requeued_jobs (at, queue, priority, scheduled_at)
SELECT clock_timestamp(), i.queue, i.priority, min(i.due)
FROM unnest($1::text[], $2::smallint[], $3::timestamptz[]) AS i (queue, priority, due)
GROUP BY i.queue, i.priority;
