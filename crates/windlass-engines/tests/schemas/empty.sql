-- Resets a schema to its state after creation. No trigger acts on rows that are deleted or restored, and no
-- foreign key requires an order.
SET session_replication_role = replica;
DO $empty$
DECLARE
    name text;
    is_used boolean;
BEGIN
    -- A call of the last borrower may still be running; nothing of it may arrive later. A session of a pooler
    -- is left to other clients once it is idle.
    WHILE EXISTS (
        SELECT FROM pg_stat_activity
        WHERE application_name = '{schema}' AND NOT ({is_pooled} AND state = 'idle')
    ) LOOP
        PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = '{schema}' AND NOT {is_pooled};
        PERFORM pg_sleep(0.002);
        PERFORM pg_stat_clear_snapshot();
    END LOOP;
    -- Partitions that the borrower added.
    FOR name IN
        SELECT relname FROM pg_class
        WHERE relnamespace = '{schema}'::regnamespace AND relkind = 'r'
            AND to_regclass(format('{schema}_kept.%I', relname)) IS NULL
    LOOP
        EXECUTE format('DROP TABLE {schema}.%I', name);
    END LOOP;
    FOR name IN
        SELECT relname FROM pg_class WHERE relnamespace = '{schema}_kept'::regnamespace AND relkind = 'r'
    LOOP
        EXECUTE format(
            'SELECT EXISTS (SELECT t::text FROM {schema}.%I AS t EXCEPT ALL SELECT t::text FROM {schema}_kept.%1$I AS t)
                OR EXISTS (SELECT t::text FROM {schema}_kept.%1$I AS t EXCEPT ALL SELECT t::text FROM {schema}.%1$I AS t)',
            name
        ) INTO is_used;
        IF is_used THEN
            -- The statement is not TRUNCATE, which creates new files for each table, index and sequence:
            -- that takes as long as a new schema.
            EXECUTE format('DELETE FROM {schema}.%I', name);
            EXECUTE format('INSERT INTO {schema}.%I OVERRIDING SYSTEM VALUE TABLE {schema}_kept.%1$I', name);
        END IF;
    END LOOP;
    FOR name IN
        SELECT format('setval(%L, %s, false)', seqrelid::regclass, seqstart) FROM pg_sequence
        JOIN pg_class ON pg_class.oid = seqrelid WHERE relnamespace = '{schema}'::regnamespace
    LOOP
        EXECUTE 'SELECT ' || name;
    END LOOP;
END
$empty$;
