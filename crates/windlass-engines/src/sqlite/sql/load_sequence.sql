-- load_sequence: the number of the next job.
SELECT next FROM job_sequence;
