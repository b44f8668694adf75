-- load_queues: all queues.
SELECT name, spec, pause, shut FROM windlass.queues ORDER BY name;
