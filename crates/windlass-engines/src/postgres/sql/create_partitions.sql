-- create_partitions: creates the partitions of the history for the days ahead.
-- $1 now, or null for the server's clock
SELECT windlass.create_partitions(coalesce($1::timestamptz, now()));
