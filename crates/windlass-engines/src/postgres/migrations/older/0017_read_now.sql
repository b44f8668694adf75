-- read_now: the start of the transaction by the server's clock.
SELECT now();
