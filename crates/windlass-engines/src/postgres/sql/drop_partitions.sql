-- drop_partitions: the oldest day of the history that is over is dropped. Answers about how many jobs went, and whether there is
-- more to do.
-- $1 now, or null for the server's clock
SELECT dropped, more FROM windlass.drop_partitions(coalesce($1::timestamptz, now()));
