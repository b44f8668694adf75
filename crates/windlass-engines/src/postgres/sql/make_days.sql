-- make_days: the days ahead of the history are made.
-- $1 now, or null for the server's clock
SELECT windlass.make_days(coalesce($1::timestamptz, now()));
