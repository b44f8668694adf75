-- read_now: reads the server's clock at this statement. The transaction may have started before a wait for
-- a lock.
SELECT statement_timestamp();
