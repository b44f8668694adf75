-- mark_waiting: this process waits for jobs of these queues and is to be woken.
-- $1 queues   $2 channel
INSERT INTO windlass.waiting (queue, channel, since)
SELECT queue, $2::text, clock_timestamp() FROM unnest($1::text[]) AS q (queue)
ON CONFLICT (queue, channel) DO UPDATE SET since = excluded.since;
