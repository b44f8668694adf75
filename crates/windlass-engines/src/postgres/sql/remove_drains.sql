-- remove_drains: drains are forgotten, and their marks with them. The transaction has locked them and compared their versions.
-- $1 names
WITH gone AS (DELETE FROM windlass.job_drains WHERE name = ANY ($1::text[]))
DELETE FROM windlass.drain_marks WHERE drain = ANY ($1::text[]);
