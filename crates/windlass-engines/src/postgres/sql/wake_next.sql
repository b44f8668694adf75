-- wake_next: notifies another process that handles one of the same types, since a queue has more jobs than
-- this process takes.
-- $1 queue   $2 this process's channel   $3 the types it handles, in JSON
-- plan: sorts: the workers that wait for jobs of one queue
SELECT pg_notify(channel, $1::text) FROM (
    SELECT channel FROM windlass.waiting
    WHERE queue = $1::text AND channel <> $2::text AND types && ARRAY (SELECT json_array_elements_text($3::json))
    ORDER BY random() LIMIT 1
) AS chosen;
