-- notification_queue: returns how full the server's queue of notifications is, from 0 to 1.
SELECT pg_notification_queue_usage();
