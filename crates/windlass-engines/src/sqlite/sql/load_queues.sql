-- load_queues: reads all queues, in the order of their numbers.
SELECT id, name, spec, pause, shut FROM queues ORDER BY id;
