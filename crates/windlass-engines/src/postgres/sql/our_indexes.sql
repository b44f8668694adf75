-- our_indexes: lists the indexes of our tables, and whether each is valid.
-- plan: cold: an operator runs the doctor
SELECT i.relname::text, x.indisvalid FROM pg_index x
JOIN pg_class i ON i.oid = x.indexrelid
JOIN pg_class t ON t.oid = x.indrelid
WHERE t.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'windlass.delayed_jobs'::regclass)
ORDER BY 1;
