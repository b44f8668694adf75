-- read_clock: reads the server's clock.
SELECT clock_timestamp();
