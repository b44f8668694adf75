-- minute_mark: up to where totals are booked.
SELECT version, booked FROM minute_mark;
