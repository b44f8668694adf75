-- read_now: the server's clock at this statement. The start of the transaction may lie before a wait for a lock.
SELECT statement_timestamp();
