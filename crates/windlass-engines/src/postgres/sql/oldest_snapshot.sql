-- oldest_snapshot: who has held back vacuum for the longest: a session, a prepared transaction or a replication slot.
-- Answers who, for how many seconds, of which kind, and the session's process.
SELECT who, seconds, kind, pid FROM (
    SELECT format('session %s of %s (%s, %s)', pid, usename, coalesce(nullif(application_name, ''), 'no name'), state) AS who,
        extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds, 'session' AS kind, pid
    FROM pg_stat_activity
    WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
        AND datname = current_database()
    UNION ALL
    SELECT gid, extract(epoch FROM clock_timestamp() - prepared)::float8, 'prepared', 0
    FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL
    SELECT slot_name, 86400.0, 'slot', 0 FROM pg_replication_slots
    WHERE NOT active AND (xmin IS NOT NULL OR catalog_xmin IS NOT NULL)
) AS holders
ORDER BY seconds DESC LIMIT 1;
