-- insert_attempt: stores an attempt that did not end its job.
-- ?1 job   ?2 number   ?3 worker   ?4 started at   ?5 ended at   ?6 ending   ?7 error   ?8 output
INSERT INTO attempts (job, number, worker, started_at, ended_at, ending, error, output)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);
