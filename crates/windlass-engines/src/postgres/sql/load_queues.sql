-- load_queues: all queues.
SELECT name, spec, pause, shut, shares_since IS NOT NULL FROM windlass.queues ORDER BY name;
