-- note_requeued_jobs: notes where due jobs were requeued, so that claims of other processes read there
-- again. It uses the server's own clock, since the time only says which notes are new.
-- by position: $1 queues   $2 priorities   $3 due
INSERT INTO windlass.requeued_jobs (at, queue, priority, scheduled_at)
SELECT clock_timestamp(), i.queue, i.priority, min(i.due)
FROM unnest($1::text[], $2::smallint[], $3::timestamptz[]) AS i (queue, priority, due)
GROUP BY i.queue, i.priority;
