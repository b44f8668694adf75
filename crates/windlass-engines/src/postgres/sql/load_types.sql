-- load_types: all types.
SELECT name, queue, spec FROM windlass.job_types ORDER BY name;
