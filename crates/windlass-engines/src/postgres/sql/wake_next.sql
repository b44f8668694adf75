-- wake_next: there is more in a queue than this process takes, so another one is woken.
-- $1 queue   $2 this process's channel
SELECT pg_notify(channel, $1::text) FROM (
    SELECT channel FROM windlass.waiting WHERE queue = $1::text AND channel <> $2::text ORDER BY random() LIMIT 1
) AS chosen;
