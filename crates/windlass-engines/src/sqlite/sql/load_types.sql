-- load_types: reads all types, in the order of their numbers.
SELECT id, name, queue, spec FROM job_types ORDER BY id;
