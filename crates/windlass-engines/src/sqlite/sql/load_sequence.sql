-- load_sequence: reads the id of the next job.
SELECT next FROM job_sequence;
