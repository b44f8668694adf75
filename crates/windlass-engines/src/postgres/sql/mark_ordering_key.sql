-- mark_ordering_key: marks ordering keys in which a job was enqueued, ended or started over: once that is
-- committed, a job may go out.
-- by position: $1 types   $2 ordering keys
INSERT INTO windlass.ordering_key_marks (job_type, ordering_key)
SELECT i.job_type, i.ordering_key FROM unnest($1::text[], $2::text[]) AS i (job_type, ordering_key);
