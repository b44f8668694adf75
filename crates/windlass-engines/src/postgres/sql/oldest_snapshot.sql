-- oldest_snapshot: finds what has held back vacuum for the longest: a session, a prepared transaction, a
-- replication slot, or a standby that gives feedback. Returns its name, for how many transactions, for how
-- many seconds if that is known, its kind, and the process id of the session.
-- plan: cold: an operator runs the doctor
SELECT who, transactions, seconds, kind, pid FROM (
    SELECT format('session %s of %s (%s, %s)', pid, usename, coalesce(nullif(application_name, ''), 'no name'), coalesce(state, backend_type)) AS who,
        greatest(age(backend_xmin), age(backend_xid)) AS transactions,
        extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds, 'session' AS kind, pid
    FROM pg_stat_activity
    WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid()
        AND (datname = current_database() AND xact_start IS NOT NULL OR backend_type = 'walsender')
    UNION ALL
    SELECT gid, age(transaction), extract(epoch FROM clock_timestamp() - prepared)::float8, 'prepared', 0
    FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL
    SELECT slot_name, greatest(age(xmin), age(catalog_xmin)), NULL, 'slot', 0 FROM pg_replication_slots
    WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL
) AS holders
ORDER BY transactions DESC, seconds DESC NULLS LAST LIMIT 1;
