-- read_clock: the server's clock.
SELECT clock_timestamp();
