-- read_put_backs: where jobs were put back lately. Late ones may come in late, so the last seconds are read again.
SELECT queue, priority, min(scheduled_at) FROM windlass.put_backs
WHERE at > clock_timestamp() - interval '10 seconds' GROUP BY queue, priority;
