-- notification_queue: how full the queue of notifications is, from 0 to 1.
SELECT pg_notification_queue_usage();
