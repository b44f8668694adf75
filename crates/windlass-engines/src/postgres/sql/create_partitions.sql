-- create_partitions: the days ahead of the history are made.
-- $1 now, or null for the server's clock
SELECT windlass.create_partitions(coalesce($1::timestamptz, now()));
