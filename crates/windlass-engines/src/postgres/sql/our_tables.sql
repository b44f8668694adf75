-- our_tables: lists our bigger tables with their live and dead rows and their sizes.
-- plan: cold: an operator runs the doctor
SELECT s.relid::regclass::text, s.n_live_tup, s.n_dead_tup, pg_size_pretty(pg_table_size(s.relid)),
    pg_size_pretty(pg_indexes_size(s.relid))
FROM pg_stat_user_tables s
WHERE s.schemaname = (
    SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = 'windlass.delayed_jobs'::regclass
)
ORDER BY pg_total_relation_size(s.relid) DESC LIMIT 12;
