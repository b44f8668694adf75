-- Stores the names of the tables of a schema, and the rows that its creation inserted into them.
CREATE SCHEMA {schema}_kept;
DO $keep$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT relname FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relkind = 'r'
    LOOP
        EXECUTE format('CREATE TABLE {schema}_kept.%I AS TABLE {schema}.%1$I', name);
    END LOOP;
END
$keep$;
