-- load_queues: reads all queues.
SELECT name, spec, pause, shut, fairness_keys_since IS NOT NULL FROM windlass.queues ORDER BY name;
