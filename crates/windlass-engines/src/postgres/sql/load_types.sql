-- load_types: reads all types.
SELECT name, queue, spec FROM windlass.job_types ORDER BY name;
