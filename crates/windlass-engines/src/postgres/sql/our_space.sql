-- our_space: lists our tables and indexes that take at least $1 bytes: whether it is an index, its bytes,
-- and about how many bytes its rows need, by the server's last count of them. Pages are left half empty on
-- purpose, and page splits leave them so.
-- $1 bytes
-- plan: cold: an operator runs the doctor
SELECT c.oid::regclass::text, c.relkind = 'i', pg_relation_size(c.oid),
    (2 * greatest(c.reltuples, coalesce(s.n_live_tup, 0), 1) * CASE
        WHEN c.relkind = 'i' THEN 16 + coalesce((SELECT sum(w.avg_width) FROM pg_stats w
            WHERE w.schemaname = n.nspname AND w.tablename = t.relname AND w.attname IN (
                SELECT a.attname FROM pg_attribute a WHERE a.attrelid = c.oid
            )), 48)
        ELSE 32 + coalesce((SELECT sum(w.avg_width) FROM pg_stats w
            WHERE w.schemaname = n.nspname AND w.tablename = c.relname), 480)
    END)::bigint
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
LEFT JOIN pg_index x ON x.indexrelid = c.oid
LEFT JOIN pg_class t ON t.oid = x.indrelid
WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'windlass.delayed_jobs'::regclass)
    AND c.relkind IN ('r', 'i') AND pg_relation_size(c.oid) >= $1::bigint
ORDER BY pg_relation_size(c.oid) DESC LIMIT 20;
