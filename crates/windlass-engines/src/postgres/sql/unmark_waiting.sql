-- unmark_waiting: this process finds its work by itself, and needs no waking for these queues.
-- $1 queues   $2 channel
DELETE FROM windlass.waiting WHERE queue = ANY ($1::text[]) AND channel = $2::text;
