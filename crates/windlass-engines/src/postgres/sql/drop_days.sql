-- drop_days: the days of the history that are over are dropped. Answers about how many jobs went.
-- $1 now, or null for the server's clock
SELECT windlass.drop_days(coalesce($1::timestamptz, now()));
