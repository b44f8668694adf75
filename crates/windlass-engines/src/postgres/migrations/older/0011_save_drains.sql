-- save_drains: how drains stand from now on. The transaction has locked those that were there and has compared their versions; one
-- that somebody else has just stored is left alone. Of a new one, marks that outlived another of its name are forgotten. Answers
-- which were written.
-- by position: $1 names   $2 versions that were read   $3 versions from now on   $4 kinds of groups   $5 their names
-- $6 whether it waits for retries   $7 records
WITH input AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::boolean[], $7::text[])
        AS i (name, was, version, kind, watched, wait_for_retries, record)
), forgotten AS (
    DELETE FROM windlass.drain_marks WHERE drain = ANY (ARRAY (SELECT name FROM input WHERE was = 0))
)
INSERT INTO windlass.job_drains AS d (name, version, kind, watched, wait_for_retries, record)
SELECT name, version, kind, watched, wait_for_retries, record FROM input ORDER BY name COLLATE "C"
ON CONFLICT (name) DO UPDATE SET version = excluded.version, kind = excluded.kind, watched = excluded.watched,
    wait_for_retries = excluded.wait_for_retries, record = excluded.record
WHERE d.version = (SELECT w.was FROM unnest($1::text[], $2::bigint[]) AS w (name, was) WHERE w.name = excluded.name)
RETURNING d.name;
