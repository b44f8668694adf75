-- drop_partitions: drops the oldest partition of the history whose day is over. Returns about how many jobs
-- it held, and whether there are more partitions to drop.
-- $1 now, or null for the server's clock
SELECT dropped, more FROM windlass.drop_partitions(coalesce($1::timestamptz, now()));
