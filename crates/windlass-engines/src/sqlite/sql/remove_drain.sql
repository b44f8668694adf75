-- remove_drain: a drain is forgotten. The transaction has compared its version.
-- ?1 name
DELETE FROM job_drains WHERE name = ?1;
