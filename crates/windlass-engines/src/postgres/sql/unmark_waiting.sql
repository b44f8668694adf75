-- unmark_waiting: removes this process from the processes that are notified about these queues: it finds
-- its work itself.
-- $1 queues   $2 channel
DELETE FROM windlass.waiting WHERE queue = ANY ($1::text[]) AND channel = $2::text;
