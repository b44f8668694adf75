-- save_schedules: stores schedules. The transaction has locked the existing ones and has compared their
-- versions; a schedule that another process has just stored is left alone. Returns which were stored.
-- by position: $1 names   $2 versions that were read   $3 new versions
-- $4 time of the next check, or null for never
-- $5 last jobs   $6 records
-- plan: sorts: the schedules of one request
INSERT INTO windlass.job_schedules AS s (name, version, look_at, last_job, record)
SELECT i.name, i.version, i.look_at, i.last_job, i.record
FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::timestamptz[], $5::bigint[], $6::text[])
    AS i (name, was, version, look_at, last_job, record)
ORDER BY i.name COLLATE "C"
ON CONFLICT (name) DO UPDATE SET version = excluded.version, look_at = excluded.look_at, last_job = excluded.last_job,
    record = excluded.record
WHERE s.version = (SELECT w.was FROM unnest($1::text[], $2::bigint[]) AS w (name, was) WHERE w.name = excluded.name)
RETURNING s.name;
