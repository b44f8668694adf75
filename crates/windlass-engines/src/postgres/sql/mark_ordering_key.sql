-- mark_ordering_key: something of these ordering keys came in, ended or was started over: once it is committed, somebody may go out.
-- by position: $1 types   $2 ordering_key
INSERT INTO windlass.ordering_key_marks (job_type, ordering_key)
SELECT i.job_type, i.ordering_key FROM unnest($1::text[], $2::text[]) AS i (job_type, ordering_key);
